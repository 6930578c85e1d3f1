//! Tests of controllers that a program supplies.

use super::*;
use anabranch_wire::{MAX_REGISTERED, RegisterError};

use crate::congestion::{Acked, Congested, Controller, ControllerFactory, Sibling, Start, State};

/// Controller whose window never changes.
#[derive(Debug)]
struct Constant(u64);

impl Controller for Constant {
    fn on_acked(&mut self, _: &Acked<'_>, _: &[Sibling]) {}
    fn on_congestion(&mut self, _: &Congested, _: &[Sibling]) {}
    fn on_spurious(&mut self, _: Time) {}
    fn on_persistent_congestion(&mut self, _: Time, _: u64) {}

    fn window(&self) -> u64 {
        self.0
    }

    fn state(&self) -> State {
        State::CongestionAvoidance
    }
}

#[derive(Debug)]
struct Factory(&'static str);

impl ControllerFactory for Factory {
    fn name(&self) -> &'static str {
        self.0
    }

    fn build(&self, start: &Start) -> Box<dyn Controller> {
        Box::new(Constant(start.window / 2))
    }
}

fn register(name: String) -> Result<Algorithm, RegisterError> {
    Algorithm::register(Box::leak(Box::new(Factory(name.leak()))))
}

#[test]
fn programs_bring_controllers_along() {
    assert!("constant".parse::<Algorithm>().is_err());
    let constant = register("constant".to_owned()).unwrap();
    assert_eq!("constant".parse(), Ok(constant));
    let config = |congestion| Config::default().with_congestion(congestion);
    let windows = [Algorithm::NewReno, constant].map(|congestion| {
        let recovery: Recovery<()> = Recovery::new(&config(congestion), Time::ZERO);
        assert_eq!(recovery.congestion().algorithm(), congestion);
        recovery.window()
    });
    assert_eq!(windows[0], 2 * windows[1]);
    assert_eq!(
        register("constant".to_owned()),
        Err(RegisterError::NameTaken { what: "congestion controller", name: "constant" })
    );
    assert_eq!(
        register("bbr".to_owned()),
        Err(RegisterError::NameTaken { what: "congestion controller", name: "bbr" })
    );
    let more = (0..).take_while(|n| register(format!("n{n}")).is_ok()).count();
    assert_eq!(more + 1, MAX_REGISTERED);
    assert_eq!(register("another".to_owned()), Err(RegisterError::TooMany { what: "congestion controller" }));
}
