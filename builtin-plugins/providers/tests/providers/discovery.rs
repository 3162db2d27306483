//! Which models there are.

use std::time::Duration;

use linn_bus_test::{Recorder, run};
use linn_services::events::ProviderModels;
use linn_services::providers::{EndpointDraft, ProviderSpec};
use linn_services_test::Gate;
use serde_json::{Value, json};

use crate::support::{Answer, Harness, Kept, Net, config, harness, listed, spec};

#[test]
fn wp_8_6_the_full_list_is_asked_for_first() {
    run(async |root| {
        let net = Net::new([(
            "https://a.example/models/info",
            json!({ "m": { "capabilities": { "context_window": 8192, "recommended_max_tokens": 1024 } } }),
        )]);
        let of = harness(&root, config(&net, vec![spec("a")]), &Kept::default()).await;
        assert_eq!(of.models().await, ["a:m"]);
        assert_eq!(net.headers(), ["accept: application/json", "authorization: Bearer key-a"]);
        assert_eq!(net.asked(), ["https://a.example/models/info"]);
        let model = of.providers.models().unwrap().remove(0);
        assert_eq!((model.context_window, model.max_tokens), (8192, 1024));
    });
}

#[test]
fn wp_8_6_an_own_path_is_the_only_one_asked() {
    run(async |root| {
        let net = Net::new([("https://a.example/list", listed(&["m"]))]);
        let spec = ProviderSpec { models_endpoint: Some("/list".into()), ..spec("a") };
        let of = harness(&root, config(&net, vec![spec]), &Kept::default()).await;
        assert_eq!(of.models().await, ["a:m"]);
        assert_eq!(net.asked(), ["https://a.example/list"]);
    });
}

#[test]
fn wp_8_6_a_silent_endpoint_is_given_up_after_eight_seconds() {
    run(async |root| {
        let net = Net::default();
        net.put("https://a.example/models/info", Answer::Silent);
        net.put("https://a.example/models", Answer::Silent);
        let began = root.clock().monotonic();
        let of = harness(&root, config(&net, vec![spec("a")]), &Kept::default()).await;
        assert_eq!(of.models().await, [""; 0]);
        assert_eq!(root.clock().monotonic() - began, Duration::from_secs(8));
        assert_eq!(net.asked().len(), 2);
    });
}

#[test]
fn wp_8_6_vendors_that_are_known_have_models_also_while_they_are_dead() {
    run(async |root| {
        let vendor =
            ProviderSpec { base_url: "https://api.anthropic.com/v1".into(), kind: "claude".into(), ..spec("c") };
        let of = harness(&root, config(&Net::default(), vec![vendor]), &Kept::default()).await;
        assert_eq!(of.models().await.len(), 7);
        assert_eq!(of.providers.active().unwrap().kind, "anthropic");
    });
}

#[test]
fn wp_8_6_pages_are_read_one_after_another() {
    run(async |root| {
        let net = Net::new([
            ("https://c.example/models", json!({ "data": [{ "id": "one" }], "has_more": true, "last_id": "one" })),
            (
                "https://c.example/models?limit=1000&after_id=one",
                json!({ "data": [{ "id": "two" }], "has_more": false }),
            ),
        ]);
        let of = harness(
            &root,
            config(&net, vec![ProviderSpec { kind: "anthropic".into(), ..spec("c") }]),
            &Kept::default(),
        )
        .await;
        assert_eq!(of.models().await, ["c:one", "c:two"]);
        assert!(net.headers().contains(&"x-api-key: key-c".to_owned()));
    });
}

#[test]
fn wp_8_6_models_are_kept_for_eight_hours() {
    run(async |root| {
        let folder = tempfile::tempdir().unwrap();
        let net = Net::new([("https://a.example/models/info", json!({ "m": {} }))]);
        let with_cache = || linn_plugin_providers::ProvidersConfig {
            cache_folder: Some(folder.path().to_owned()),
            ..config(&net, vec![spec("a")])
        };
        let mut of = harness(&root, with_cache(), &Kept::default()).await;
        assert_eq!(of.models().await, ["a:m"]);
        assert_eq!(net.asked().len(), 1);
        let file = std::fs::read_to_string(folder.path().join("models-cache.json")).unwrap();
        let file: Value = serde_json::from_str(&file).unwrap();
        assert_eq!(file["version"], 10);
        assert_eq!(file["entries"]["https://a.example|openai|/models"]["models"][0]["id"], "m");

        let mut again = async |hours: u64| {
            root.sleep(Duration::from_secs(hours * 3600)).await.unwrap();
            of.update(&root, with_cache()).await;
            (of.models().await, net.asked().len())
        };
        assert_eq!(again(7).await, (vec!["a:m".to_owned()], 0));
        net.put("https://a.example/models/info", Answer::Json(200, json!({ "n": {} })));
        assert_eq!(again(1).await, (vec!["a:n".to_owned()], 1));
        net.take("https://a.example/models/info");
        assert_eq!(again(9).await, (vec!["a:n".to_owned()], 1), "a dead endpoint has what is kept, however old");
    });
}

#[test]
fn wp_4_4_a_refresh_asks_all_and_one_that_is_silent_keeps_what_it_had() {
    run(async |root| {
        let net = Net::new([
            ("https://a.example/models/info", json!({ "a1": {} })),
            ("https://b.example/models/info", json!({ "b1": {} })),
        ]);
        let of = harness(&root, config(&net, vec![spec("a"), spec("b")]), &Kept::default()).await;
        assert_eq!(of.models().await, ["a:a1", "b:b1"]);
        let recorder = Recorder::new();
        recorder.listen::<ProviderModels>(&root).unwrap();
        net.put("https://a.example/models/info", Answer::Json(200, json!({ "a1": {}, "a2": {} })));
        net.take("https://b.example/models/info");
        let ids: Vec<_> = of.providers.refresh().await.unwrap().models.iter().map(|it| it.qualified()).collect();
        assert_eq!(ids, ["a:a1", "a:a2", "b:b1"]);
        let told: Vec<usize> = recorder.heard::<ProviderModels>().iter().map(|it| it.n_models).collect();
        assert_eq!(told, [3], "told once");
        of.providers.refresh().await.unwrap();
        assert_eq!(recorder.heard::<ProviderModels>().len(), 1, "nothing changed");
    });
}

#[test]
fn a_refresh_that_is_dropped_keeps_what_it_found() {
    run(async |root| {
        let gate = Gate::new();
        let net = Net::new([("https://a.example/models/info", json!({ "a1": {} }))]);
        let of = harness(&root, config(&net, vec![spec("a"), spec("b")]), &Kept::default()).await;
        assert_eq!(of.models().await, ["a:a1"]);
        net.put("https://a.example/models/info", Answer::Json(200, json!({ "a2": {} })));
        net.put("https://b.example/models/info", Answer::Held(gate, json!({ "b1": {} })));
        let dropped = root.within(Duration::from_secs(1), of.providers.refresh()).await;
        assert!(dropped.is_err());
        assert_eq!(of.models().await, ["a:a2"]);
    });
}

#[test]
fn wp_8_6_the_public_list_fills_gaps_and_is_kept_for_a_day() {
    run(async |root| {
        let folder = tempfile::tempdir().unwrap();
        let net = Net::new([
            (
                "https://a.example/models/info",
                json!({ "known": {}, "told": { "capabilities": { "context_window": 5000 } } }),
            ),
            ("http://localhost:1/models/info", json!({ "known": {} })),
            (
                "https://list.example/models.json",
                json!({ "lab/known": { "limit": { "context": 64000, "output": 4000 } }, "lab/told": { "limit": { "context": 1 } } }),
            ),
        ]);
        let local = ProviderSpec { base_url: "http://localhost:1".into(), ..spec("local") };
        let with_list = || linn_plugin_providers::ProvidersConfig {
            cache_folder: Some(folder.path().to_owned()),
            catalogue_url: "https://list.example/models.json".into(),
            ..config(&net, vec![spec("a"), local.clone()])
        };
        let mut of = harness(&root, with_list(), &Kept::default()).await;
        of.models().await;
        let sizes = |of: &Harness| {
            of.providers.models().unwrap().into_iter().map(|it| (it.qualified(), it.context_window)).collect::<Vec<_>>()
        };
        let expected =
            [("a:known", 64_000), ("a:told", 5000), ("local:known", 200_000)].map(|(id, it)| (id.to_owned(), it));
        assert_eq!(sizes(&of), expected);
        let n_lists = |asked: Vec<String>| asked.iter().filter(|it| it.contains("list.example")).count();
        assert_eq!(n_lists(net.asked()), 1);
        for (hours, n_asked) in [(9, 0), (16, 1)] {
            root.sleep(Duration::from_secs(hours * 3600)).await.unwrap();
            of.update(&root, with_list()).await;
            of.models().await;
            assert_eq!((sizes(&of), n_lists(net.asked())), (expected.to_vec(), n_asked), "after {hours} more hours");
        }
    });
}

#[test]
fn wp_8_6_while_nobody_is_logged_in_the_active_one_alone_is_asked() {
    run(async |root| {
        let signed_out = |name: &str| ProviderSpec { api_key: None, ..spec(name) };
        let net = Net::new([("https://b.example/models/info", json!({ "m": {} }))]);
        let config = linn_plugin_providers::ProvidersConfig {
            active: Some("b".into()),
            ..config(&net, vec![signed_out("a"), signed_out("b")])
        };
        let of = harness(&root, config, &Kept::default()).await;
        assert_eq!(of.models().await, ["b:m"]);
        assert_eq!(net.asked(), ["https://b.example/models/info"]);
    });
}

#[test]
fn wp_4_4_an_endpoint_is_looked_at_without_being_kept() {
    run(async |root| {
        let net = Net::new([("https://new.example/v1/models/info", json!({ "m": {} }))]);
        let of = harness(&root, config(&net, vec![spec("a")]), &Kept::default()).await;
        let draft = |url: &str| EndpointDraft { base_url: url.to_owned(), ..EndpointDraft::default() };
        let found = of.providers.preview(draft(" https://new.example/v1/ ")).await.unwrap();
        assert_eq!(found[0].qualified(), "__preview__:m");
        assert_eq!(of.models().await, [""; 0]);
        let error = of.providers.preview(draft("https://dead.example")).await.unwrap_err();
        assert_eq!(
            (error.code(), error.to_string()),
            ("NO_MODELS", "no models were found at https://dead.example: no connection: refused".to_owned())
        );
        net.put("https://odd.example/models/info", Answer::Text("<html>".into()));
        net.put("https://odd.example/models", Answer::Text("<html>".into()));
        let error = of.providers.preview(draft("https://odd.example")).await.unwrap_err();
        assert!(error.to_string().ends_with("the answer is no JSON"), "{error}");
        assert_eq!(of.providers.preview(draft("")).await.unwrap_err().code(), "PROVIDER_INCOMPLETE");
    });
}

#[test]
fn wp_8_6_a_list_that_changes_often_is_asked_for_behind_what_is_kept() {
    run(async |root| {
        let folder = tempfile::tempdir().unwrap();
        let net = Net::new([("https://api.code.umans.ai/v1/models/info", json!({ "m": {} }))]);
        let umans = ProviderSpec { base_url: "https://api.code.umans.ai/v1".into(), ..spec("umans") };
        let with_cache = || linn_plugin_providers::ProvidersConfig {
            cache_folder: Some(folder.path().to_owned()),
            ..config(&net, vec![umans.clone()])
        };
        let mut of = harness(&root, with_cache(), &Kept::default()).await;
        assert_eq!(of.models().await, ["umans:m"]);
        assert_eq!(net.asked().len(), 1, "it was asked just now");
        let recorder = Recorder::new();
        recorder.listen::<ProviderModels>(&root).unwrap();
        net.put("https://api.code.umans.ai/v1/models/info", Answer::Json(200, json!({ "m": {}, "n": {} })));
        of.update(&root, with_cache()).await;
        assert!(of.providers.models().unwrap().is_empty(), "they are looked for because somebody asks");
        assert_eq!(recorder.nth::<ProviderModels>(1).await.n_models, 1, "what is kept comes first");
        assert_eq!(recorder.nth::<ProviderModels>(2).await.n_models, 2);
    });
}
