//! What the program tells on standard error: without the keys that it was given.

use std::io::{IsTerminal as _, Write};

use linn::services::secrets::SecretKeeper;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Has warnings and errors go to standard error, or what the level named has; panics as well.
pub(crate) fn log_to_stderr(level: Option<&str>, secrets: &SecretKeeper) {
    let level = level.and_then(|it| it.parse().ok());
    tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::WARN))
        .with_writer(WithoutSecrets { secrets: secrets.clone() })
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_target(false)
        .init();
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.payload_as_str().unwrap_or("without a message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!("panic at {place}: {text}");
    }));
}

/// Makes writers that take secrets out of what is written at once, which is a line.
struct WithoutSecrets {
    secrets: SecretKeeper,
}

impl<'a> MakeWriter<'a> for WithoutSecrets {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { secrets: self.secrets.clone() }
    }
}

struct Line {
    secrets: SecretKeeper,
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        std::io::stderr().lock().write_all(self.secrets.redact(text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
