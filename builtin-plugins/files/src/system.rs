//! The one place of this crate that reaches for the operating system.
//!
//! Nothing here is asynchronous: [`Workers`] runs it on threads of its own, or in place where that has to happen in the
//! same order each time.
//!
//! # Why nothing leads out of the workspace
//!
//! A path goes two ways. [`Tree::locate`](tree::Tree) reads it: absolute paths and `..` are refused as they are written,
//! links are followed by reading them, and what ends outside is refused with the place where it ends. That gives good
//! words and one name for each file, but somebody may put a link in the way right after. So nothing is done through that
//! path. What is done begins at a handle of the workspace, opened once, and takes one step for each name: every folder is
//! opened from the handle of the folder before it, with an open that does not follow links (`O_NOFOLLOW`, and `openat2` with
//! `RESOLVE_BENEATH` where the system has it). The last step is an operation on a handle and a name, and none of those that
//! are used follows a link at that name: open and create do not, `rename`, `unlink`, `rmdir` and `mkdir` never do. A link
//! that was put in the way is an error of that step, whenever it was put there.
//!
//! A folder that somebody moves out of the workspace while it is open takes what is done in it along; who can do that can
//! move the files as well.

mod error;
mod search;
mod tree;
mod walk;
mod workers;

pub(crate) use tree::Tree;
pub(crate) use workers::{Stop, Workers};
