//! The real files: written in one step, private, through links, and locked.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use linn_config::{Access, ClientFiles, Config, Files, ProviderChange, Sources, SystemFiles, UserFile, keys};
use serde_json::json;

fn sources(home: &Path) -> Sources {
    Sources {
        home: Some(home.into()),
        files: Arc::new(SystemFiles),
        ..Sources::in_memory(home.join("w"), linn_config::MemoryFiles::default())
    }
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_system_has_variables_and_a_folder() {
    let sources = Sources::system(vec!["--model".into(), "m".into()]).unwrap();
    assert!(sources.folder.is_absolute());
    assert!(sources.variables.get("CARGO_MANIFEST_DIR").is_some());
    assert_eq!(sources.arguments.len(), 2);
    assert!(
        sources.files.read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap().contains("linn-config")
    );
}

#[test]
fn files_are_read_and_written() {
    let home = tempfile::tempdir().unwrap();
    let sources = sources(home.path());
    UserFile::new(&sources).unwrap().set("model", &json!("m")).unwrap();
    ClientFiles::new(&sources).change_providers(&ProviderChange::default()).unwrap();
    fs::create_dir_all(home.path().join(".config/catalyst-code/catalyst-code.d")).unwrap();
    fs::write(home.path().join(".config/catalyst-code/catalyst-code.d/1.json"), "{\"approval\": \"all\"}").unwrap();
    let config = Config::load(sources, &[]);
    assert_eq!(config.problems().len(), 0, "{:?}", config.problems());
    assert_eq!(config.get(&keys::MODEL).as_deref(), Some("m"));
    assert_eq!(config.get(&keys::APPROVAL), linn_config::Approval::Always);
    let mut names: Vec<String> = fs::read_dir(home.path().join(".config/linn"))
        .unwrap()
        .map(|it| it.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["linn.lock", "linn.toml"]);
}

#[test]
#[cfg(unix)]
fn wp_3_4_files_with_keys_are_private_even_if_they_were_not() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(".config/catalyst-code/config.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "{}").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let sources = sources(home.path());
    ClientFiles::new(&sources).change_providers(&ProviderChange::default()).unwrap();
    UserFile::new(&sources).unwrap().set("model", &json!("m")).unwrap();
    assert_eq!((mode(&path), mode(&home.path().join(".config/linn/linn.toml"))), (0o600, 0o600));
    let shared = home.path().join("w/vision.json");
    SystemFiles.write(&shared, "{}", Access::Kept).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o640)).unwrap();
    SystemFiles.write(&shared, "{\"a\": 1}", Access::Kept).unwrap();
    assert_eq!(mode(&shared), 0o640);
}

#[test]
#[cfg(unix)]
fn a_link_stays_a_link() {
    let home = tempfile::tempdir().unwrap();
    let (link, target) = (home.path().join(".config/linn/linn.toml"), home.path().join("dotfiles/linn.toml"));
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    fs::write(&target, "# mine\n").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    UserFile::new(&sources(home.path())).unwrap().set("model", &json!("m")).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap(), "# mine\nmodel = \"m\"\n");
}

#[test]
fn writers_wait_for_one_another() {
    let home = tempfile::tempdir().unwrap();
    let sources = sources(home.path());
    std::thread::scope(|scope| {
        for at in 0..8 {
            let sources = &sources;
            scope.spawn(move || {
                let change = linn_config::EntryChange { plugin: Some("p".into()), ..Default::default() };
                UserFile::new(sources).unwrap().change_entry(&format!("e{at}"), &change).unwrap();
            });
        }
    });
    assert_eq!(Config::load(sources, &[]).tree().entries().len(), 8);
}

#[test]
#[cfg(unix)]
fn a_link_to_a_device_is_not_read() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("w/.linn");
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.join("linn.toml")).unwrap();
    let config = Config::load(sources(home.path()), &[]);
    assert_eq!(config.problems().len(), 1);
    assert_eq!(config.problems()[0].code(), "CONFIG_FILE");
}

#[test]
fn what_cannot_be_read_or_written_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".config/linn");
    fs::create_dir_all(folder.join("linn.toml")).unwrap();
    let sources = sources(home.path());
    let problem = UserFile::new(&sources).unwrap().set("model", &json!("m")).unwrap_err();
    assert_eq!(problem.code(), "CONFIG_FILE");
    let config = Config::load(sources, &[]);
    assert_eq!(config.problems()[0].to_string(), format!("cannot read {}", folder.join("linn.toml").display()));
    fs::remove_dir(folder.join("linn.toml")).unwrap();
    fs::write(folder.join("linn.toml"), "#".repeat((16 << 20) + 1)).unwrap();
    assert_eq!(Config::load(config.sources().clone(), &[]).problems()[0].code(), "CONFIG_FILE");
    fs::write(folder.join("linn.toml"), [0xff, 0xfe]).unwrap();
    assert_eq!(Config::load(config.sources().clone(), &[]).problems()[0].code(), "CONFIG_FILE");
}
