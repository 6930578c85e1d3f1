//! Schedulers that programs bring along.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{PoisonError, RwLock};

use super::{Algorithm, Scheduler};

/// Maximum number of schedulers that a process registers.
pub const MAX_REGISTERED: usize = 64;

/// Schedulers that [`Algorithm::register`] was called with.
static REGISTERED: RwLock<Vec<CustomScheduler>> = RwLock::new(Vec::new());

/// A factory of schedulers: one scheduler for each connection with several paths.
pub trait SchedulerFactory: fmt::Debug + Send + Sync {
    /// Returns the name by which configurations, plans and results know the scheduler.
    fn name(&self) -> &'static str;

    /// Creates a scheduler.
    fn build(&self) -> Box<dyn Scheduler>;
}

/// A scheduler that a program brings along, compared by its name.
#[derive(Clone, Copy, Debug)]
pub struct CustomScheduler(pub &'static dyn SchedulerFactory);

impl CustomScheduler {
    /// Returns the scheduler's name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }
}

impl PartialEq for CustomScheduler {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for CustomScheduler {}

impl Hash for CustomScheduler {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl Algorithm {
    /// Makes a scheduler known by its name, so that [`FromStr`](std::str::FromStr) finds it: lab plans, profiles and options of
    /// commands name schedulers that way. A configuration takes [`Algorithm::Custom`] without that.
    ///
    /// # Errors
    /// If there is a scheduler of that name, or too many were registered.
    pub fn register(factory: &'static dyn SchedulerFactory) -> Result<Self, RegisterError> {
        let name = factory.name();
        let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
        if Self::NAMES.contains(&name) || registered.iter().any(|known| known.name() == name) {
            return Err(RegisterError::NameTaken(name));
        }
        if registered.len() >= MAX_REGISTERED {
            return Err(RegisterError::TooMany);
        }
        registered.push(CustomScheduler(factory));
        Ok(Self::Custom(CustomScheduler(factory)))
    }

    /// Returns the registered scheduler of that name.
    pub(super) fn registered(name: &str) -> Option<Self> {
        let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
        registered.iter().find(|known| known.name() == name).map(|known| Self::Custom(*known))
    }
}

/// Why a scheduler was not registered.
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
            Self::NameTaken(name) => write!(f, "there is a scheduler `{name}` already"),
            Self::TooMany => write!(f, "more than {MAX_REGISTERED} schedulers cannot be registered"),
        }
    }
}

impl std::error::Error for RegisterError {}
