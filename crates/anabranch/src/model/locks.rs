//! Locks that record the order in which tasks take them. A cycle of orders is a fault, even if no execution ends in a deadlock.

use std::any::type_name;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError};

use shuttle::current;
use shuttle::sync as inner;

thread_local! {
    static ORDER: RefCell<Order> = RefCell::default();
}

/// Kind of a lock: the type of the state behind it.
type Kind = &'static str;

/// Order of locks in all executions of a test.
#[derive(Default)]
struct Order {
    /// Locks that each task of this execution holds.
    held: BTreeMap<usize, Vec<Kind>>,
    /// Pairs of which the second lock was taken while the first one was held.
    pairs: BTreeSet<(Kind, Kind)>,
}

impl Order {
    /// Records that a task takes a lock. Returns a lock that must not be held while this one is taken, if the task holds one.
    fn take(&mut self, task: usize, kind: Kind) -> Option<Kind> {
        let held = self.held.get(&task).cloned().unwrap_or_default();
        self.pairs.extend(held.iter().map(|before| (*before, kind)));
        held.into_iter().find(|before| self.leads(kind, before, &mut BTreeSet::new()))
    }

    /// Returns whether `to` has been taken, by one or several steps, while `from` was held.
    fn leads(&self, from: Kind, to: Kind, seen: &mut BTreeSet<Kind>) -> bool {
        from == to
            || self
                .pairs
                .iter()
                .any(|(first, then)| *first == from && seen.insert(then) && self.leads(then, to, seen))
    }
}

/// Forgets which locks the last execution's tasks held.
pub(super) fn reset() {
    ORDER.with_borrow_mut(|order| order.held.clear());
}

/// A lock that a task holds.
struct Held {
    task: usize,
    kind: Kind,
}

impl Held {
    fn take<T>() -> Self {
        let (task, kind) = (usize::from(current::me()), type_name::<T>());
        let wrong = ORDER.with_borrow_mut(|order| order.take(task, kind));
        assert_eq!(
            wrong, None,
            "{kind} is locked while the other one is held, and the other way round elsewhere"
        );
        Self { task, kind }
    }

    fn note(self) -> Self {
        ORDER.with_borrow_mut(|order| order.held.entry(self.task).or_default().push(self.kind));
        self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = ORDER.try_with(|order| {
            let mut order = order.borrow_mut();
            let held = order.held.entry(self.task).or_default();
            if let Some(at) = held.iter().rposition(|kind| *kind == self.kind) {
                held.remove(at);
            }
        });
    }
}

/// A mutex of the model.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(inner::Mutex<T>);

/// Guard of a lock of the model.
pub(crate) struct Guard<G> {
    guard: G,
    _held: Held,
}

pub(crate) type MutexGuard<'a, T> = Guard<inner::MutexGuard<'a, T>>;

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(inner::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        guarded::<T, _>(|| self.0.lock())
    }
}

/// A lock of the model for several readers or one writer.
#[cfg(feature = "proxy")]
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(inner::RwLock<T>);

#[cfg(feature = "proxy")]
impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(inner::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> LockResult<Guard<inner::RwLockReadGuard<'_, T>>> {
        guarded::<T, _>(|| self.0.read())
    }

    pub(crate) fn write(&self) -> LockResult<Guard<inner::RwLockWriteGuard<'_, T>>> {
        guarded::<T, _>(|| self.0.write())
    }
}

fn guarded<T, G>(lock: impl FnOnce() -> LockResult<G>) -> LockResult<Guard<G>> {
    let taken = Held::take::<T>();
    match lock() {
        Ok(guard) => Ok(Guard { guard, _held: taken.note() }),
        Err(poisoned) => Err(PoisonError::new(Guard { guard: poisoned.into_inner(), _held: taken.note() })),
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}
