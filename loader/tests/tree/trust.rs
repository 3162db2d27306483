//! What a repository inserts.

use linn_loader::{EntryFault, LoaderSettings, TrustStore};

use crate::support::{World, probes, workspace_tree};

#[tokio::test]
async fn an_entry_of_a_repository_runs_once_its_content_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let trust = TrustStore::new(folder.path().join("deep/trusted"));
    let settings = LoaderSettings { trust: Some(trust.clone()), ..LoaderSettings::default() };
    let world = World::with(settings).await;
    let digest = |applied: linn_loader::Applied| match &applied.problems[0].fault {
        EntryFault::NotTrusted { digest } => *digest,
        other => panic!("{other}"),
    };
    let first = digest(world.loader.apply(&workspace_tree(&probes("a"))).await);
    assert_eq!(world.order(), "");
    trust.add(first, std::path::Path::new("entry a")).unwrap();
    world.loader.apply(&workspace_tree(&probes("a"))).await;
    assert_eq!(world.order(), "a");
    // Another config is another content.
    world.loader.apply(&workspace_tree("")).await;
    let other = digest(world.loader.apply(&workspace_tree(&probes("a").replace("tag = 'a'", "tag = 'b'"))).await);
    assert_ne!(first, other);
    assert!(trust.distrust(&first).unwrap());
    assert!(!trust.distrust(&first).unwrap());
    assert!(!trust.is_trusted(&first));
    world.end().await;
}
