//! Linn.

pub use linn_bus as bus;
