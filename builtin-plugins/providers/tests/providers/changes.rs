//! Logins, logouts, keys, and providers that are added.

use linn_bus::Root;
use linn_bus_test::{Recorder, leak_check, run};
use linn_plugin_providers::ProvidersPlugin;
use linn_services::events::ProvidersChanged;
use linn_services::llm::LlmPlugin;
use linn_services::providers::ProviderSpec;
use serde_json::json;

use crate::support::{Answer, Asked, Kept, Net, config, harness, spec};

fn heard(recorder: &Recorder) -> Vec<String> {
    recorder
        .heard::<ProvidersChanged>()
        .into_iter()
        .map(|it| format!("{} {}", it.active.name, it.active.has_key))
        .collect()
}

fn recorder(root: &Root) -> Recorder {
    let recorder = Recorder::new();
    recorder.listen::<ProvidersChanged>(root).unwrap();
    recorder
}

#[test]
fn wp_3_5_default_stands_in_while_none_is_configured() {
    run(async |root| {
        let net = Net::new([("https://api.code.umans.ai/v1/models/info", json!({ "m": {} }))]);
        let mut config = config(&net, vec![]);
        config.default.api_key = Some("legacy".into());
        let of = harness(&root, config, &Kept::default()).await;
        assert_eq!(of.models().await, ["default:m"]);
        let active = of.providers.active().unwrap();
        assert_eq!((&*active.name, &*active.kind, active.has_key), ("default", "openai", true));
        let wire = Asked::new("openai");
        of.llm.register_wire(&root, std::sync::Arc::new(wire.clone())).unwrap();
        of.ask("m").await.unwrap();
        assert_eq!(wire.last(), "default m legacy");
        of.providers.log_out("default").await.unwrap();
        assert!(!of.providers.active().unwrap().has_key);
    });
}

#[test]
fn wp_4_4_a_login_configures_a_provider_and_makes_it_active() {
    run(async |root| {
        let net = Net::new([("https://api.deepseek.com/models", json!({ "data": [{ "id": "deepseek-chat" }] }))]);
        net.put("https://api.deepseek.com/models/info", Answer::Json(404, json!({})));
        let kept = Kept::default();
        let of = harness(&root, config(&net, vec![spec("a")]), &kept).await;
        let recorder = recorder(&root);
        let done = of.providers.log_in("deepseek", Some(" sk-1\n".into())).await.unwrap();
        assert_eq!((&*done.label, done.with_key, done.kept.failure), ("DeepSeek", true, None));
        assert_eq!((&*done.provider.name, done.provider.has_key), ("deepseek", true));
        assert_eq!(kept.last(), (vec!["deepseek openai sk-1".to_owned()], vec![], Some("deepseek".to_owned())));
        assert_eq!(heard(&recorder), ["deepseek true"]);
        assert_eq!(of.models().await, ["deepseek:deepseek-chat"]);
        let preset = of.providers.presets().unwrap().into_iter().find(|it| it.id == "deepseek").unwrap();
        assert!(preset.configured && preset.has_key && preset.logged_in);
        let json = serde_json::to_value(&preset).unwrap();
        let fields: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = [
            "id",
            "label",
            "kind",
            "base_url",
            "envVar",
            "altEnvs",
            "description",
            "hasKey",
            "configured",
            "loggedIn",
            "supportsOauth",
        ];
        expected.sort_unstable();
        assert_eq!(fields, expected);
    });
}

#[test]
fn wp_8_1_a_preset_with_two_wires_comes_and_goes_as_one() {
    run(async |root| {
        let kept = Kept::default();
        let of = harness(&root, config(&Net::default(), vec![spec("a")]), &kept).await;
        of.providers.log_in("opencode-go", Some("k".into())).await.unwrap();
        let names = || {
            of.providers.list().unwrap().into_iter().map(|it| format!("{} {}", it.name, it.kind)).collect::<Vec<_>>()
        };
        assert_eq!(names(), ["a openai", "opencode-go openai", "opencode-go-anthropic anthropic"]);
        assert_eq!(of.providers.active().unwrap().name, "opencode-go");
        of.providers.log_out("opencode-go-anthropic").await.unwrap();
        assert_eq!(names(), ["a openai"]);
        let (put, removed, active) = kept.last();
        assert_eq!(
            (put.len(), removed, active.as_deref()),
            (0, vec!["opencode-go-anthropic".to_owned(), "opencode-go".to_owned()], Some("a"))
        );
    });
}

#[test]
fn wp_4_4_what_cannot_be_logged_in_or_out_is_refused() {
    run(async |root| {
        let of = harness(&root, config(&Net::default(), vec![spec("a")]), &Kept::default()).await;
        let error = of.providers.log_in("nope", None).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no provider preset `nope`; there are: umans, opencode-go, openrouter, deepseek"
        );
        for key in [None, Some("  ".into())] {
            assert_eq!(of.providers.log_in("umans", key).await.unwrap_err().code(), "NO_KEY");
        }
        assert_eq!(of.providers.log_out("umans").await.unwrap_err().code(), "NOT_LOGGED_IN");
        let error = of.providers.set_active("nope").await.unwrap_err();
        assert_eq!(error.to_string(), "there is no provider `nope`; there are: a");
        assert_eq!(of.providers.active().unwrap().name, "a");
    });
}

#[test]
fn what_cannot_be_kept_holds_until_the_end() {
    run(async |root| {
        let kept = Kept::default();
        kept.fail("the disk is full");
        let of = harness(&root, config(&Net::default(), vec![]), &kept).await;
        let done = of.providers.log_in("openrouter", Some("k".into())).await.unwrap();
        assert_eq!(done.kept.failure.as_deref(), Some("the disk is full"));
        assert_eq!(of.providers.active().unwrap().name, "openrouter");
    });
}

#[test]
fn wp_4_4_a_key_may_come_before_its_provider() {
    run(async |root| {
        let of = harness(
            &root,
            config(&Net::default(), vec![ProviderSpec { api_key: None, ..spec("a") }]),
            &Kept::default(),
        )
        .await;
        let recorder = recorder(&root);
        assert_eq!(of.providers.set_key(None, "k1".into()).await.unwrap(), "a");
        assert_eq!(of.providers.set_key(Some("later"), "k2".into()).await.unwrap(), "later");
        assert_eq!(heard(&recorder), ["a true", "a true"]);
        let infos = of.providers.list().unwrap();
        assert_eq!((infos.len(), infos[0].has_key), (1, true));
        of.providers.set_key(Some("a"), "".into()).await.unwrap();
        assert!(!of.providers.list().unwrap()[0].has_key);
    });
}

#[test]
fn wp_4_4_a_key_lets_models_be_found() {
    run(async |root| {
        let net = Net::default();
        net.put("https://b.example/models/info", Answer::Json(401, json!({})));
        let providers = vec![spec("a"), ProviderSpec { api_key: None, ..spec("b") }];
        let of = harness(&root, config(&net, providers), &Kept::default()).await;
        assert_eq!(of.models().await, [""; 0]);
        net.put("https://b.example/models/info", Answer::Json(200, json!({ "m": {} })));
        of.providers.set_key(Some("b"), "k".into()).await.unwrap();
        assert_eq!(of.models().await, ["b:m"]);
    });
}

#[test]
fn wp_4_4_a_provider_is_added_and_replaced() {
    run(async |root| {
        let kept = Kept::default();
        let net = Net::new([
            ("https://new.example/v1/models/info", json!({ "m": {} })),
            ("https://other.example/models/info", json!({ "n": {} })),
        ]);
        let of = harness(&root, config(&net, vec![spec("a")]), &kept).await;
        let new = ProviderSpec {
            name: " new ".into(),
            base_url: " https://new.example/v1/ ".into(),
            kind: "claude".into(),
            api_key: Some("k".into()),
            ..ProviderSpec::default()
        };
        let done = of.providers.put(new.clone()).await.unwrap();
        assert_eq!(
            (&*done.provider.name, &*done.provider.kind, &*done.provider.base_url, done.replaced),
            ("new", "anthropic", "https://new.example/v1", false)
        );
        assert_eq!(kept.last().0, ["new anthropic k"]);
        of.providers.set_key(Some("new"), "runtime".into()).await.unwrap();
        let other =
            ProviderSpec { base_url: "https://other.example".into(), kind: String::new(), api_key: None, ..new };
        let done = of.providers.put(other).await.unwrap();
        assert!(done.replaced && !done.provider.has_key, "its key went with it");
        assert_eq!(of.models().await, ["new:n"]);
        for (name, url) in [("", "https://x"), ("x", ""), ("x", "ftp://x"), (" ", "https://x")] {
            let wrong = ProviderSpec { name: name.into(), base_url: url.into(), ..ProviderSpec::default() };
            assert_eq!(of.providers.put(wrong).await.unwrap_err().code(), "PROVIDER_INCOMPLETE");
        }
    });
}

#[test]
fn what_a_late_answer_of_an_earlier_state_says_does_not_count() {
    run(async |root| {
        let gate = linn_services_test::Gate::new();
        let net = Net::default();
        net.put("https://a.example/models/info", Answer::Held(gate.clone(), json!({ "old": {} })));
        let of = harness(&root, config(&net, vec![spec("a")]), &Kept::default()).await;
        net.put("https://elsewhere.example/models/info", Answer::Json(200, json!({ "new": {} })));
        of.providers.put(ProviderSpec { base_url: "https://elsewhere.example".into(), ..spec("a") }).await.unwrap();
        gate.open();
        assert_eq!(of.models().await, ["a:new"]);
    });
}

#[test]
fn a_config_that_cannot_be_meant_is_refused() {
    run(async |root| {
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        let mut wrong = config(&Net::default(), vec![]);
        wrong.default.base_url = "nowhere".into();
        let refused = root.mount::<ProvidersPlugin>(wrong).unwrap().running().await.unwrap_err();
        assert!(format!("{refused:#}").contains("default.base_url"), "{refused:#}");
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    run(async |root| {
        root.mount::<LlmPlugin>(()).unwrap().running().await.unwrap();
        let net = Net::default();
        net.put("https://a.example/models/info", Answer::Silent);
        leak_check(&root, async |ctx| {
            let providers = ctx.mount::<ProvidersPlugin>(config(&net, vec![spec("a")])).unwrap();
            providers.running().await.unwrap();
            providers.dispose().await.unwrap();
        })
        .await;
    });
}

#[test]
fn what_a_front_end_changed_outlives_a_reload_of_the_plugin() {
    run(async |root| {
        let net = Net::new([]);
        let with = || config(&net, vec![spec("a"), spec("b")]);
        let kept = Kept::default();
        let mut of = harness(&root, with(), &kept).await;
        let wire = Asked::new("openai");
        of.llm.register_wire(&root, std::sync::Arc::new(wire.clone())).unwrap();
        of.providers.set_key(Some("b"), "set-later".into()).await.unwrap();
        of.providers.put(ProviderSpec { api_key: Some("of-c".into()), ..spec("c") }).await.unwrap();
        of.providers.log_out("a").await.unwrap();
        of.providers.set_active("b").await.unwrap();
        of.update(&root, with()).await;
        let names: Vec<_> = of.providers.list().unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(of.providers.active().unwrap().name, "b");
        of.ask("b:m").await.unwrap();
        assert_eq!(wire.last(), "b b:m set-later");
        of.ask("c:m").await.unwrap();
        assert_eq!(wire.last(), "c c:m of-c");
        // A new program knows what was kept, and no more.
        assert!(
            !format!("{:?}", linn_services::settings::Settings::provider_memory(&kept).unwrap()).contains("set-later")
        );
    });
}
