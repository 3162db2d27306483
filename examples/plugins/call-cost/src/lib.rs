//! What `cargo run --release -p linn-loader --example call_cost` measures, as a library.

mod listeners;

linn_bus::plugin!(listeners::CallCost);
