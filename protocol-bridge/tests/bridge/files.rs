//! Files that calls change, and files that prompts bring along.

use linn_bus::Root;
use linn_bus_test::run;
use linn_plugin_files::{FilesConfig, FilesPlugin};
use linn_services_test::Reply;
use serde_json::json;
use tempfile::TempDir;

use crate::kit::{Setup, World, all, first, types};

async fn world(root: Root, folder: &TempDir, script: impl IntoIterator<Item = Reply>) -> World {
    let setup = Setup { workspace: folder.path().to_owned(), ..Setup::default() };
    let world = World::with(root, script, setup).await;
    let config = FilesConfig { n_threads: 0, read_before_write: false, ..FilesConfig::new(folder.path()) };
    world.root.mount::<FilesPlugin>(config).unwrap().running().await.unwrap();
    world
}

#[test]
fn a_write_is_asked_with_its_diff_and_told_with_its_change_6_3_6_7() {
    let folder = tempfile::tempdir().unwrap();
    run(async |root| {
        let arguments = json!({ "path": "a.txt", "content": "new text\n" });
        let mut world = world(root, &folder, [Reply::call("c1", "write_file", arguments), Reply::text("ok")]).await;
        world.prompt("hi").await;
        let request = world.event("approval_request").await;
        assert!(request["diff"].as_str().unwrap().contains("+new text"), "{request}");
        world.send(json!({ "type": "approve", "request_id": request["request_id"], "decision": "yes" })).await;
        let events = world.until("done").await;
        let told: Vec<_> = types(&events).into_iter().take(3).collect();
        assert_eq!(told, ["work_state", "tool_result", "file_change"]);
        assert_eq!(first(&events, "work_state")["recent_files"], json!(["a.txt"]));
        assert!(first(&events, "tool_result")["diff"].as_str().unwrap().contains("+new text"));
        let change = first(&events, "file_change");
        assert_eq!((&change["path"], &change["tool"]), (&json!("a.txt"), &json!("write_file")));
        assert!(change["unified_diff"].as_str().unwrap().contains("+new text"));
        assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), "new text\n");
    });
}

#[test]
fn a_denied_write_changes_nothing_6_7() {
    let folder = tempfile::tempdir().unwrap();
    run(async |root| {
        let arguments = json!({ "path": "a.txt", "content": "new text\n" });
        let mut world = world(root, &folder, [Reply::call("c1", "write_file", arguments), Reply::text("ok")]).await;
        world.prompt("hi").await;
        let request = world.event("approval_request").await;
        world.send(json!({ "type": "approve", "request_id": request["request_id"], "decision": "no" })).await;
        let events = world.until("done").await;
        assert_eq!(first(&events, "tool_result")["status"], "denied");
        assert!(all(&events, "file_change").is_empty());
        assert!(!folder.path().join("a.txt").exists());
    });
}

#[test]
fn files_that_a_prompt_mentions_go_with_it_6_1() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "alpha").unwrap();
    std::fs::write(folder.path().join("big.txt"), "x".repeat(25 << 10)).unwrap();
    std::fs::write(folder.path().join("cat.png"), b"\x89PNG\r\n").unwrap();
    run(async |root| {
        let mut world = world(root, &folder, [Reply::text("ok")]).await;
        let prompt = "see @a.txt, @big.txt and @../x or me@a.txt";
        let images = json!(["cat.png", "gone.png"]);
        world.send(json!({ "type": "send", "prompt": prompt, "model": "mock-model", "images": images })).await;
        let events = world.until("done").await;
        let infos: Vec<_> = all(&events, "info").iter().map(|it| it["message"].as_str().unwrap()).collect();
        assert!(infos[0].starts_with("the picture gone.png was left out: "), "{infos:?}");
        assert_eq!(infos[1], "attached 1 file(s) from @mentions: a.txt");
        assert!(first(&events, "info")["run_id"].is_string());
        let asked = &world.model.requests()[0];
        let text = linn_services::model::text_of(&asked.messages[0].content);
        let expected = "see @a.txt\n<file path=\"a.txt\">\nalpha\n</file>, @big.txt and @../x or me@a.txt";
        assert_eq!(text, expected);
        let picture = linn_services::model::ContentBlock::Image { url: "data:image/png;base64,iVBORw0K".to_owned() };
        assert_eq!(asked.messages[0].content[1..], [picture]);
    });
}
