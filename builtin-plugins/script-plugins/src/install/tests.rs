//! Whatever fails on the way of a plugin into its place, there is one whole plugin there, the old one or the new one.

use std::fs;
use std::io::Error;

use super::*;

/// A root with a folder `p` in it that is no plugin that runs, a plugin `p` from elsewhere, and a place for decisions.
struct World {
    _folder: tempfile::TempDir,
    base: PathBuf,
    store: Store,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for (path, text) in [("root/p/mine", "old"), ("from/plugin.json", r#"{"name":"p","version":"1"}"#)] {
            fs::create_dir_all(base.join(path).parent().unwrap()).unwrap();
            fs::write(base.join(path), text).unwrap();
        }
        let store = Store::new(&base.join("kept"), Some(&base));
        Self { _folder: folder, base, store }
    }

    fn stage(&self) -> Staged {
        stage(&self.base.join("from"), &self.base.join("root"), &[], false, None).unwrap()
    }

    /// The files of what is in the place, and everything else in the root.
    fn look(&self) -> (Vec<String>, Vec<String>) {
        let names = |path: &str| -> Vec<String> {
            let entries = fs::read_dir(self.base.join(path)).into_iter().flatten();
            let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        (names("root/p"), names("root").into_iter().filter(|it| it != "p").collect())
    }

    fn is_noted(&self) -> bool {
        let place = self.base.join("root/p");
        digest(&place).is_ok_and(|it| self.store.read().is_installed(&place, &it))
    }
}

fn old() -> (Vec<String>, Vec<String>) {
    (vec!["mine".to_owned()], Vec::new())
}

#[test]
fn script_20_8_an_install_that_cannot_clear_away_what_it_replaced_has_succeeded_and_says_what_is_left() {
    let world = World::new();
    let cannot = |beside: Staging| {
        // It is there still when this fails.
        let _ = beside.keep();
        Err(Error::other("it is busy"))
    };
    let put = world.stage().put(Some(&world.store), cannot).unwrap();
    let left = put.left.unwrap();
    assert!(left.starts_with("it is installed, but ") && left.contains("could not be removed: it is busy"), "{left}");
    assert_eq!(world.look().0, ["plugin.json"]);
    assert!(world.is_noted());
    assert_eq!(world.look().1.len(), 1, "and that is there");
}

#[test]
fn script_20_8_an_install_that_goes_well_leaves_the_new_plugin_alone() {
    let world = World::new();
    let put = world.stage().put(Some(&world.store), Staging::close).unwrap();
    assert_eq!((put.left, world.look()), (None, (vec!["plugin.json".to_owned()], Vec::new())));
    assert!(world.is_noted());
}

#[test]
fn script_20_8_a_plugin_that_cannot_be_moved_into_its_place_leaves_what_was_there() {
    let world = World::new();
    let staged = world.stage();
    // What was put together is gone, so the move fails.
    fs::remove_dir_all(staged.beside.path().join(NEW)).unwrap();
    let error = staged.put(Some(&world.store), Staging::close).unwrap_err();
    assert!(matches!(error, InstallError::Io { what: "cannot make", .. }), "{error}");
    assert_eq!(world.look(), old());
    assert!(!world.is_noted());
}

#[test]
fn script_20_8_a_plugin_that_cannot_be_noted_leaves_what_was_there() {
    let world = World::new();
    // A file is in the way of the folder of decisions.
    fs::write(world.base.join("kept"), "").unwrap();
    let error = world.stage().put(Some(&world.store), Staging::close).unwrap_err();
    assert!(matches!(error, InstallError::NotKept(_)), "{error}");
    assert_eq!(world.look(), old());

    // Also when nothing was there.
    fs::remove_dir_all(world.base.join("root/p")).unwrap();
    world.stage().put(Some(&world.store), Staging::close).unwrap_err();
    assert_eq!(world.look(), (Vec::new(), Vec::new()));
    assert!(!world.base.join("root/p").exists());
}

#[test]
fn script_20_8_an_install_that_is_given_up_before_the_move_leaves_what_was_there() {
    let world = World::new();
    drop(world.stage());
    assert_eq!(world.look(), old());
}

#[test]
fn script_20_8_the_folder_of_another_plugin_that_is_installed_is_not_taken() {
    let world = World::new();
    let installed = [("other".to_owned(), world.base.join("root/p"))];
    let staged = stage(&world.base.join("from"), &world.base.join("root"), &installed, false, None);
    let error = staged.err().unwrap();
    let place = world.base.join("root/p");
    let expected = format!("{} holds the plugin 'other'; remove that first, or rename its folder", place.display());
    assert_eq!(error.to_string(), expected);
    assert_eq!(world.look(), old());
}
