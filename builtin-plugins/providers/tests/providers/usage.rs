//! What providers say of their use.

use linn_bus_test::run;
use linn_services::providers::ProviderSpec;
use serde_json::json;

use crate::support::{Answer, Asked, Kept, Net, config, harness, spec};

#[test]
fn wp_8_7_the_provider_of_the_model_is_asked() {
    run(async |root| {
        let net = Net::new([
            ("https://a.example/models/info", json!({ "m": {} })),
            ("https://b.example/models/info", json!({ "n": {} })),
            (
                "https://a.example/usage",
                json!({ "plan": { "display_name": "Max" }, "usage": { "concurrent_sessions": 2 } }),
            ),
        ]);
        net.put("https://b.example/usage", Answer::Json(404, json!({})));
        let local = ProviderSpec { base_url: "http://localhost:1".into(), api_key: None, ..spec("c") };
        let of = harness(&root, config(&net, vec![spec("a"), spec("b"), local]), &Kept::default()).await;
        of.providers.settled().await.unwrap();
        let usage = of.providers.usage(None).await.unwrap();
        assert_eq!((&*usage.provider, &*usage.model, usage.available), ("a", "m", true), "the first there is");
        assert_eq!((usage.plan.as_deref(), usage.windows[0].used), (Some("Max"), Some(2.0)));
        assert!(net.headers().contains(&"authorization: Bearer key-a".to_owned()));

        let wire = Asked::new("openai");
        of.llm.register_wire(&root, std::sync::Arc::new(wire)).unwrap();
        of.ask("n").await.unwrap();
        let usage = of.providers.usage(None).await.unwrap();
        assert_eq!((&*usage.provider, &*usage.model, usage.available), ("b", "n", false), "the last one asked");
        assert_eq!(usage.message.as_deref(), Some("Provider `b` does not publish usage stats for /usage."));

        let usage = of.providers.usage(Some("c:x")).await.unwrap();
        assert_eq!(
            (usage.available, usage.message.as_deref()),
            (false, Some("Provider `c` does not publish usage stats for /usage."))
        );
        net.put("https://b.example/usage", Answer::Json(500, json!({ "error": "busy" })));
        let usage = of.providers.usage(Some("n")).await.unwrap();
        assert_eq!(usage.message.as_deref(), Some("Provider `b` does not tell of its use: HTTP 500: busy."));
    });
}
