//! Plugins by their descriptors.
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a failed test")]

use std::sync::Arc;

use linn_bus::{
    BusError, Context, Demand, Event, Fault, FiberState, Mounting, NeedList, Plugin, PluginDescriptor, PluginError,
    ServiceError, Svc, plugin_catalogue, provider, service, service_catalogue,
};
use linn_bus_test::{leak_check, run};
use serde_json::json;

#[derive(Event)]
#[event(name = "descriptor/ask", mode = Bail, output = String)]
struct Ask;

#[service("descriptor/store")]
#[allow(dead_code, reason = "who needs it and who brings it is all that is told")]
trait Store {
    fn get(&self) -> Result<u8, ServiceError>;
}

struct Seven;

#[provider]
impl Store for Seven {
    fn get(&self) -> Result<u8, ServiceError> {
        Ok(7)
    }
}

#[derive(Clone, serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code, reason = "what it holds is told by its schema")]
struct Config {
    text: String,
    #[serde(default)]
    limits: Limits,
}

#[derive(Clone, Default, serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code, reason = "what it holds is told by its schema")]
struct Limits {
    seconds: u32,
}

struct Speaker;

linn_bus::plugin!(Speaker, Idle);

impl Plugin for Speaker {
    const NAME: &'static str = "speaker";
    type Config = Config;
    type Needs = Svc<dyn Store>;

    fn validate(config: &Config) -> Result<(), Fault> {
        assert_ne!(config.text, "panic", "asked to");
        if config.text.is_empty() { Err(Fault::msg("say something")) } else { Ok(()) }
    }

    fn provides(list: &mut NeedList) {
        list.add::<dyn Store>(Demand::Required);
    }

    async fn start(ctx: &Context, config: Config, _: Svc<dyn Store>) -> Result<(), Fault> {
        assert_ne!(config.text, "boom", "asked to");
        ctx.on(move |_: &Ask| Some(config.text.clone()))?;
        Ok(())
    }
}

struct Idle;

impl Plugin for Idle {
    const NAME: &'static str = "idle";
    type Config = ();
    type Needs = ();
    async fn start(_: &Context, (): (), (): ()) -> Result<(), Fault> {
        Ok(())
    }
}

fn named(name: &str) -> &'static PluginDescriptor {
    plugin_catalogue().into_iter().find(|it| it.name == name).unwrap()
}

#[test]
fn a_plugin_is_known_by_its_name_without_running() {
    let speaker = named("speaker");
    assert_eq!(speaker.krate, "linn-bus");
    let needs: Vec<_> = speaker.needs().unwrap().iter().map(|it| it.service.name).collect();
    assert_eq!(needs, ["descriptor/store"]);
    assert_eq!(speaker.provides().unwrap().iter().count(), 1);
    assert_eq!(speaker.schema().unwrap()["required"], json!(["text"]));
}

#[test]
fn a_config_that_does_not_fit_is_told_with_its_path() {
    let check = |config| named("speaker").check(&config).map_err(|it| (it.path.clone(), it.message.clone()));
    assert_eq!(check(json!({ "text": "x" })), Ok(()));
    let (path, message) = check(json!({ "text": "x", "limits": { "seconds": "many" } })).unwrap_err();
    assert_eq!(path, "limits.seconds");
    assert!(message.contains("expected u32"), "{message}");
    assert_eq!(check(json!({ "text": "" })).unwrap_err(), (String::new(), "say something".to_owned()));
    let (_, message) = check(json!({ "text": "panic" })).unwrap_err();
    assert!(message.contains("asked to"), "{message}");
    assert!(named("idle").check(&json!({})).is_ok());
    assert!(named("idle").check(&json!({ "x": 1 })).is_err());
}

#[test]
fn it_is_mounted_updated_and_disposed_by_name() {
    run(async |root| {
        leak_check(&root, async |ctx| {
            let speaker = named("speaker");
            let fiber = speaker.mount(ctx, &Mounting::default(), &json!({ "text": "one" })).unwrap();
            assert_eq!(fiber.settled().await.unwrap(), FiberState::Pending);
            let store = ctx.provide::<dyn Store>(Arc::new(Seven)).unwrap();
            fiber.running().await.unwrap();
            assert_eq!(ctx.bail(&Ask).unwrap().as_deref(), Some("one"));
            speaker.update(&fiber, &json!({ "text": "two" })).await.unwrap();
            assert_eq!(ctx.bail(&Ask).unwrap().as_deref(), Some("two"));
            let wrong = speaker.update(&fiber, &json!({ "text": 2 })).await.unwrap_err();
            assert_eq!(wrong.code(), "PLUGIN_CONFIG");
            assert_eq!(ctx.bail(&Ask).unwrap().as_deref(), Some("two"));
            fiber.dispose().await.unwrap();
            store.dispose().await;
        })
        .await;
    });
}

#[test]
fn a_panic_of_its_start_is_an_error_of_it() {
    run(async |root| {
        root.provide::<dyn Store>(Arc::new(Seven)).unwrap();
        let fiber = named("speaker").mount(&root, &Mounting::default(), &json!({ "text": "boom" })).unwrap();
        let error = fiber.running().await.unwrap_err();
        assert!(matches!(&error, BusError::StartFailed { cause, .. } if cause.is_panic()), "{error}");
    });
}

#[test]
fn more_needs_hold_it_back() {
    run(async |root| {
        let mut needs = NeedList::default();
        let store = service_catalogue().into_iter().find(|it| it.name == "descriptor/store").unwrap();
        needs.add_described(store, Demand::Required);
        let mounting = Mounting { needs, ..Mounting::default() };
        let idle = named("idle").mount(&root, &mounting, &json!({})).unwrap();
        assert_eq!(idle.settled().await.unwrap(), FiberState::Pending);
        root.provide::<dyn Store>(Arc::new(Seven)).unwrap();
        idle.running().await.unwrap();
    });
}

#[test]
fn a_version_by_name_takes_the_place_of_the_old_one() {
    run(async |root| {
        root.provide::<dyn Store>(Arc::new(Seven)).unwrap();
        let speaker = named("speaker");
        let mounting = Mounting { place: vec![3, 1], ..Mounting::default() };
        let old = speaker.mount(&root, &mounting, &json!({ "text": "old" })).unwrap();
        old.running().await.unwrap();
        let prepare = |config| speaker.prepare(&root, Some(&old), &Mounting::default(), &config);
        assert!(matches!(prepare(json!({})).unwrap_err(), PluginError::Config { .. }));
        let failed = prepare(json!({ "text": "boom" })).unwrap().switch().await;
        assert!(failed.is_err());
        assert_eq!(root.bail(&Ask).unwrap().as_deref(), Some("old"));
        let switched = prepare(json!({ "text": "new" })).unwrap().switch().await.unwrap();
        assert_eq!(root.bail(&Ask).unwrap().as_deref(), Some("new"));
        assert_eq!(*switched.mounted().place(), [3, 1]);
        switched.old_gone().await.unwrap();
    });
}
