//! The folder that the demo works in.

use std::io;
use std::path::Path;

/// The files of the workspace, and what they hold.
const FILES: &[(&str, &str)] = &[
    ("greet.sh", "# Greets whoever reads this.\nname=\"wrold\"\necho \"Hello, $name!\"\n"),
    (
        "check.sh",
        "# Checks what greet.sh says.\nsaid=$(sh greet.sh)\nif [ \"$said\" = \"Hello, world!\" ]; then\n    echo \"ok: $said\"\nelse\n    echo \"not ok: $said\"\n    exit 1\nfi\n",
    ),
    ("notes.md", "# Notes\n\nNothing here may be lost.\n"),
];

/// Writes the files of the workspace.
pub(crate) fn fill(folder: &Path) -> io::Result<()> {
    FILES.iter().try_for_each(|(name, text)| std::fs::write(folder.join(name), text))
}
