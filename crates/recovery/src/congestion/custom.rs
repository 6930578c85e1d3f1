//! Congestion controllers that programs bring along.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{PoisonError, RwLock};

use super::{Algorithm, Controller, Start};

/// Maximum number of congestion controllers that a process registers.
pub const MAX_REGISTERED: usize = 64;

/// Congestion controllers that [`Algorithm::register`] was called with.
static REGISTERED: RwLock<Vec<CustomController>> = RwLock::new(Vec::new());

/// A factory of congestion controllers: one controller for each path.
pub trait ControllerFactory: fmt::Debug + Send + Sync {
    /// Returns the name by which configurations, plans and results know the congestion controller.
    fn name(&self) -> &'static str;

    /// Creates a congestion controller.
    fn build(&self, start: &Start) -> Box<dyn Controller>;
}

/// A congestion controller that a program brings along, compared by its name.
#[derive(Clone, Copy, Debug)]
pub struct CustomController(pub &'static dyn ControllerFactory);

impl CustomController {
    /// Returns the congestion controller's name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }
}

impl PartialEq for CustomController {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for CustomController {}

impl Hash for CustomController {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl Algorithm {
    /// Makes a congestion controller known by its name, so that [`FromStr`](std::str::FromStr) finds it: lab plans, profiles and options of
    /// commands name congestion controllers that way. A configuration takes [`Algorithm::Custom`] without that.
    ///
    /// # Errors
    /// If there is a congestion controller of that name, or too many were registered.
    pub fn register(factory: &'static dyn ControllerFactory) -> Result<Self, RegisterError> {
        let name = factory.name();
        let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
        if Self::NAMES.contains(&name) || registered.iter().any(|known| known.name() == name) {
            return Err(RegisterError::NameTaken(name));
        }
        if registered.len() >= MAX_REGISTERED {
            return Err(RegisterError::TooMany);
        }
        registered.push(CustomController(factory));
        Ok(Self::Custom(CustomController(factory)))
    }

    /// Returns the registered congestion controller of that name.
    pub(super) fn registered(name: &str) -> Option<Self> {
        let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
        registered.iter().find(|known| known.name() == name).map(|known| Self::Custom(*known))
    }
}

/// Why a congestion controller was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// There is one of this name.
    NameTaken(&'static str),
    /// [`MAX_REGISTERED`] are there.
    TooMany,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken(name) => write!(f, "there is a congestion controller `{name}` already"),
            Self::TooMany => {
                write!(f, "more than {MAX_REGISTERED} congestion controllers cannot be registered")
            }
        }
    }
}

impl std::error::Error for RegisterError {}
