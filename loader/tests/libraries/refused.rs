//! Files that are not opened.

use std::fs;
use std::path::Path;

use linn_loader::{LibraryError, LibraryFile, LoaderSettings, TrustStore};

use crate::support::{World, library};

/// The library of `gate` with bytes replaced; both texts have one length.
fn patched(from: &[u8], to: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    assert_eq!(from.len(), to.len());
    let mut bytes = fs::read(library("gate", &[])).unwrap();
    let at: Vec<_> = memchr::memmem::find_iter(&bytes, from).collect();
    assert!(!at.is_empty(), "{:?}", String::from_utf8_lossy(from));
    for at in at {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    written(&bytes)
}

fn written(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gate").with_extension(std::env::consts::DLL_EXTENSION);
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// What the loader says of an entry that wants the library.
async fn told(path: &Path) -> (String, String) {
    let world = World::new(&[("gate", path)]).await;
    let applied = world.mount(&[("gate", "")]).await;
    let listed = world.loader.list().await;
    let error = listed.iter().find_map(|it| it.error.clone()).unwrap_or_default();
    let problem = &applied.problems[0];
    world.end().await;
    (problem.fault.code().to_owned(), format!("{error}\n{problem}"))
}

#[tokio::test]
async fn r067_a_library_built_in_another_way_is_refused_with_both_sides() {
    let whole = LibraryFile::read(&library("gate", &[])).unwrap();
    assert_eq!(whole.differences(), []);
    assert_eq!((whole.plugins, whole.krate.as_str()), (vec!["gate".to_owned()], "gate"));

    let here = "panic=unwind";
    let (_folder, path) = patched(b"panic=unwind\ndebug", b"panic=aborts\ndebug");
    let (code, text) = told(&path).await;
    assert_eq!(code, "LIBRARY_BUILT_DIFFERENTLY");
    assert!(text.contains("panic: unwind here, aborts in the library"), "{here}: {text}");

    let compiler = linn_bus::library::FINGERPRINT.lines().find(|it| it.starts_with("compiler=")).unwrap();
    let other = compiler.replace("compiler=1", "compiler=2");
    let (_folder, path) = patched(compiler.as_bytes(), other.as_bytes());
    let (code, text) = told(&path).await;
    assert_eq!(code, "LIBRARY_BUILT_DIFFERENTLY");
    for side in [compiler, &other] {
        assert!(text.contains(side.trim_start_matches("compiler=")), "{text}");
    }

    let (_folder, path) = patched(b"crate=linn-services\nversion=0", b"crate=linn-services\nversion=9");
    let (code, text) = told(&path).await;
    assert_eq!(code, "LIBRARY_BUILT_DIFFERENTLY");
    assert!(text.contains("linn-services: 0.") && text.contains(" here, 9."), "{text}");
}

#[tokio::test]
async fn what_is_no_library_of_a_plugin_is_refused() {
    let whole = fs::read(library("gate", &[])).unwrap();
    let code = async |bytes: &[u8]| {
        let (_folder, path) = written(bytes);
        let error = LibraryFile::read(&path).unwrap_err();
        // An entry that wants it is told that nobody has the plugin, and the library says why in the list.
        let (_, text) = told(&path).await;
        assert!(text.contains("no plugin `gate`"), "{text}");
        error.code()
    };
    assert_eq!(code(b"").await, "LIBRARY_NONE");
    assert_eq!(code(b"just text").await, "LIBRARY_NONE");
    assert_eq!(code(&whole[..whole.len() / 3]).await, "LIBRARY_TRUNCATED");
    assert_eq!(code(&whole[..whole.len() - 1]).await, "LIBRARY_TRUNCATED");
    let (_folder, path) = patched(b"\x89LINN-LIBRARY", b"\x89LINN-library");
    assert_eq!(LibraryFile::read(&path).unwrap_err().code(), "LIBRARY_NO_PLUGIN");
    if cfg!(target_arch = "x86_64") {
        let mut other = whole.clone();
        other[18] = 0xb7;
        let (_folder, path) = written(&other);
        let error = LibraryFile::read(&path).unwrap_err();
        assert!(error.to_string().contains("machine: x86_64 here, Aarch64 in the library"), "{error}");
    }
}

#[tokio::test]
async fn a_library_without_what_it_promises_is_refused_and_the_program_goes_on() {
    let (_folder, path) = patched(b"symbol=linn_plugin_gate", b"symbol=linn_plugin_gaat");
    let (code, _) = told(&path).await;
    assert_eq!(code, "LIBRARY_NO_PLUGIN");
}

#[tokio::test]
async fn r071_two_libraries_with_one_plugin_are_told_of() {
    let gate = library("gate", &[]);
    let world = World::new(&[("a-gate", &gate), ("b-gate", &gate)]).await;
    world.mount_all(&[("gate", "")]).await;
    let listed = world.loader.list().await;
    let errors: Vec<_> = listed.iter().filter(|it| it.name == "gate").map(|it| it.error.clone()).collect();
    assert_eq!(errors[0], None);
    assert!(errors[1].as_ref().unwrap().contains("plugin `gate` is there already, in"), "{errors:?}");
    let error = world.loader.reload(&world.path("b-gate")).await;
    assert!(error.is_ok(), "nothing of it runs, so there is nothing to refuse: {error:?}");
    world.end().await;
}

#[tokio::test]
async fn a_library_of_a_repository_is_opened_once_its_content_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let trust = TrustStore::new(folder.path().join("trusted"));
    let settings = LoaderSettings { trust: Some(trust.clone()), ..LoaderSettings::default() };
    let world = World::with(&[("word-count", &library("word-count", &[]))], settings, true).await;
    let applied = world.mount(&[("word-count", "")]).await;
    assert_eq!(applied.problems[0].fault.code(), "LIBRARY_NOT_TRUSTED");
    trust.trust(&world.path("word-count")).unwrap();
    world.mount_all(&[("word-count", "")]).await;
    assert_eq!(world.count("a b").await, "2");
    // A changed file asks again, and what runs runs on.
    world.replace("word-count", &library("word-count", crate::support::FROM_THOUSAND));
    let error = world.loader.reload(&world.path("word-count")).await.unwrap_err();
    assert_eq!(error.code(), "LIBRARY_NOT_TRUSTED");
    assert_eq!(world.count("a b").await, "2");
    trust.trust(&world.path("word-count")).unwrap();
    world.loader.reload(&world.path("word-count")).await.unwrap();
    assert_eq!(world.count("a b").await, "1002");
    world.end().await;
}

#[test]
fn the_store_of_trust_reads_no_library_that_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let trust = TrustStore::new(folder.path().join("trusted"));
    let path = folder.path().join("x.so");
    fs::write(&path, "text").unwrap();
    assert!(matches!(trust.trust(&path).unwrap_err(), LibraryError::NoLibrary { .. }));
    assert!(trust.list().unwrap().is_empty());
}
