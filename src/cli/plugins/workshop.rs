//! Crates of plugins: made, and built against the sources that the program has with it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use linn::loader::{Built, Workshop};
use linn::sources::{SDK, Sources};

use crate::cli::sessions;
use crate::cli::terminal::Terminal;

/// Makes a crate.
pub(crate) fn new(name: &str, folder: &Path, sdk: Option<PathBuf>, terminal: &Terminal) -> anyhow::Result<()> {
    let sdk = match sdk {
        Some(sdk) => sdk.canonicalize().with_context(|| format!("no sources at {}", sdk.display()))?,
        None => open()?.sdk().to_owned(),
    };
    let made = linn::loader::new_plugin(name, folder, &sdk)?;
    terminal.say(&format!("made {}", made.display()));
    terminal.explain(&format!("next: linn plugin install {}, which builds it", made.display()));
    Ok(())
}

/// Builds a crate.
pub(crate) fn build(folder: &Path, terminal: &Terminal) -> anyhow::Result<Built> {
    let built = open()?.build(folder)?;
    if built.is_led_here {
        terminal.explain("its manifest named sources of another version of linn, and names those of this one now");
    }
    terminal.say(&format!("built {}", built.library.display()));
    Ok(built)
}

fn open() -> anyhow::Result<Workshop> {
    let sources = Sources::unpack();
    Ok(Workshop::open(&sessions::cache()?, &sources.files(), SDK)?)
}
