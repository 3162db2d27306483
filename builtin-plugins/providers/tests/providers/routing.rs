//! A call goes to the provider that has the model.

use linn_bus::Root;
use linn_bus_test::run;
use linn_services::providers::ProviderSpec;
use linn_services_test::Gate;
use serde_json::json;

use crate::support::{Answer, Asked, Harness, Kept, Net, config, harness, listed, spec};

async fn two(root: &Root, wire: &Asked) -> (Net, Harness) {
    let net = Net::new([
        ("https://a.example/models", listed(&["m", "x"])),
        ("https://b.example/models", listed(&["m", "y"])),
    ]);
    // The full list is refused, the short one answers.
    net.put("https://a.example/models/info", Answer::Json(404, json!({})));
    net.put("https://b.example/models/info", Answer::Json(404, json!({})));
    let of = harness(root, config(&net, vec![spec("a"), spec("b")]), &Kept::default()).await;
    of.llm.register_wire(root, std::sync::Arc::new(wire.clone())).unwrap();
    of.providers.settled().await.unwrap();
    (net, of)
}

#[test]
fn wp_3_5_calls_are_routed_by_what_is_configured_now() {
    run(async |root| {
        let wire = Asked::new("openai");
        let (_, of) = two(&root, &wire).await;
        for (model, asked) in
            [("m", "a m key-a"), ("y", "b y key-b"), ("b:m", "b b:m key-b"), ("nobody-knows", "a nobody-knows key-a")]
        {
            of.ask(model).await.unwrap();
            assert_eq!(wire.last(), asked, "{model}");
        }
        of.providers.set_active("b").await.unwrap();
        of.ask("m").await.unwrap();
        assert_eq!(wire.last(), "b m key-b");
        of.providers.set_key(None, "new".into()).await.unwrap();
        of.ask("m").await.unwrap();
        assert_eq!(wire.last(), "b m new");
        let routed = of.providers.route("m", Some("a")).unwrap().unwrap();
        assert_eq!(routed.qualified(), "a:m");
        assert_eq!(of.providers.route("z", None).unwrap(), None);
    });
}

#[test]
fn what_is_known_of_a_model_goes_with_the_call() {
    run(async |root| {
        let net = Net::new([(
            "https://a.example/models/info",
            json!({ "m": { "capabilities": { "context_window": 100, "recommended_max_tokens": 7, "reasoning_efforts": ["low"] } } }),
        )]);
        let headers = vec![("x-team".to_owned(), "t".into())];
        let spec = ProviderSpec { headers, ..spec("a") };
        let of = harness(&root, config(&net, vec![spec]), &Kept::default()).await;
        let wire = Asked::new("openai");
        of.llm.register_wire(&root, std::sync::Arc::new(wire.clone())).unwrap();
        of.providers.settled().await.unwrap();
        of.ask("m").await.unwrap();
        let endpoint = wire.endpoint();
        assert_eq!(
            (endpoint.models[0].max_tokens, &endpoint.models[0].effort_levels[..]),
            (Some(7), &["low".to_owned()][..])
        );
        assert_eq!((endpoint.idle_timeout_ms, endpoint.headers.len()), (120_000, 1));
        assert_eq!(endpoint.base_url, "https://a.example");
    });
}

#[test]
fn wp_6_1_without_a_key_nobody_is_asked() {
    run(async |root| {
        let keyless = |name: &str, url: &str, env: Option<&str>| ProviderSpec {
            base_url: url.to_owned(),
            api_key: None,
            api_key_env: env.map(str::to_owned),
            ..spec(name)
        };
        let providers = vec![
            keyless("remote", "https://remote.example", None),
            keyless("local", "http://localhost:11434/v1", None),
            keyless("open", "https://open.example", Some("")),
            keyless("named", "https://named.example", Some("NAMED_KEY")),
        ];
        let kept = Kept::default().variable("NAMED_KEY", "from-variable");
        let of = harness(&root, config(&Net::default(), providers), &kept).await;
        let wire = Asked::new("openai");
        of.llm.register_wire(&root, std::sync::Arc::new(wire.clone())).unwrap();
        of.providers.settled().await.unwrap();
        let error = of.ask("remote:m").await.unwrap_err();
        assert_eq!(error, "NO_KEY: no API key set for provider 'remote'; use /login to log in");
        for (model, asked) in [
            ("local:m", "local local:m no key"),
            ("open:m", "open open:m no key"),
            ("named:m", "named named:m from-variable"),
        ] {
            of.ask(model).await.unwrap();
            assert_eq!(wire.last(), asked);
        }
        let told: Vec<_> =
            of.providers.list().unwrap().into_iter().map(|it| (it.name, it.has_key, it.is_logged_in)).collect();
        let expected = [("remote", false, false), ("local", false, true), ("open", false, true), ("named", true, true)];
        assert_eq!(told, expected.map(|(name, key, logged)| (name.to_owned(), key, logged)));
    });
}

#[test]
fn a_wire_that_nobody_speaks_is_an_error_that_names_those_there_are() {
    run(async |root| {
        let of = harness(
            &root,
            config(&Net::default(), vec![ProviderSpec { kind: "exotic".into(), ..spec("a") }]),
            &Kept::default(),
        )
        .await;
        let error = of.ask("m").await.unwrap_err();
        assert_eq!(error, "NO_WIRE: provider `a` speaks the wire `exotic`, which nothing here does; there are: none");
        let wire = Asked::new("exotic");
        of.llm.register_wire(&root, std::sync::Arc::new(wire.clone())).unwrap();
        of.ask("m").await.unwrap();
        assert_eq!(wire.last(), "a m key-a");
    });
}

#[test]
fn a_call_waits_for_who_has_the_model() {
    run(async |root| {
        let gate = Gate::new();
        let net = Net::default();
        net.put("https://b.example/models/info", Answer::Held(gate.clone(), json!({ "late": {} })));
        let of = harness(&root, config(&net, vec![spec("a"), spec("b")]), &Kept::default()).await;
        let wire = Asked::new("openai");
        of.llm.register_wire(&root, std::sync::Arc::new(wire.clone())).unwrap();
        let ask = of.ask("late");
        let open = async { gate.open() };
        let (asked, ()) = futures_util::future::join(ask, open).await;
        asked.unwrap();
        assert_eq!(wire.last(), "b late key-b");
    });
}

#[test]
fn r139_errors_and_debug_output_show_no_key() {
    run(async |root| {
        let net = Net::default();
        net.put("https://a.example/models/info", Answer::Json(404, json!({})));
        net.put("https://a.example/models", Answer::Json(401, json!({ "error": { "message": "bad key-a" } })));
        let config = config(&net, vec![spec("a")]);
        assert!(!format!("{config:?}").contains("key-a"), "{config:?}");
        let of = harness(&root, config, &Kept::default()).await;
        let draft = linn_services::providers::EndpointDraft {
            base_url: "https://a.example".into(),
            api_key: Some("key-a".into()),
            ..Default::default()
        };
        let error = of.providers.preview(draft).await.unwrap_err();
        assert!(!error.to_string().contains("key-a") && error.to_string().contains("HTTP 401"), "{error}");
    });
}
