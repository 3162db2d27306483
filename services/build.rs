//! Writes down what the crate is built from and with, for copies of it in libraries.

fn main() -> std::io::Result<()> {
    use std::io::Write as _;
    let lines = linn_fingerprint::fingerprint(&["src"], &[])?;
    std::io::stdout().write_all(lines.as_bytes())
}
