//! Skills and who brings them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use linn_bus::{BoxFuture, Context, Fault, Root, Svc};
use linn_bus_test::{Recorder, leak_check, run};
use linn_services::events::{SkillProviderAdded, SkillProviderRemoved};
use linn_services::skills::{
    RuntimeSkill, SkillCandidate, SkillDefinition, SkillLookup, SkillProvider, SkillSummary, Skills, SkillsPlugin,
};

type Listed = Arc<dyn Fn() -> BoxFuture<'static, Result<Vec<SkillCandidate>, Fault>> + Send + Sync>;

struct Shelf {
    name: &'static str,
    listed: Listed,
}

impl SkillProvider for Shelf {
    fn name(&self) -> &str {
        self.name
    }
    fn list<'a>(&'a self, _: &'a SkillLookup) -> BoxFuture<'a, Result<Vec<SkillCandidate>, Fault>> {
        (self.listed)()
    }
    fn get<'a>(
        &'a self,
        candidate: &'a SkillCandidate,
        _: &'a SkillLookup,
    ) -> BoxFuture<'a, Result<Option<SkillDefinition>, Fault>> {
        let content = format!("{} of {}", candidate.locator, self.name);
        let summary = candidate.summary.clone();
        Box::pin(std::future::ready(Ok(Some(SkillDefinition { summary, content, path: None, metadata: None }))))
    }
}

fn skill(provider: &str, name: &str, rank: f64) -> SkillCandidate {
    let summary = SkillSummary {
        name: name.to_owned(),
        description: format!("does {name}"),
        when_to_use: None,
        disable_model_invocation: false,
        source: "test".to_owned(),
        provider: provider.to_owned(),
        resource_base: None,
    };
    SkillCandidate { summary, rank, locator: format!("{name}@{rank}"), path: None, metadata: None }
}

fn fixed(name: &'static str, skills: Vec<SkillCandidate>) -> Arc<Shelf> {
    Arc::new(Shelf { name, listed: Arc::new(move || Box::pin(std::future::ready(Ok(skills.clone())))) })
}

async fn skills(root: &Root) -> Svc<dyn Skills> {
    root.mount::<SkillsPlugin>(()).unwrap().running().await.unwrap();
    root.get::<dyn Skills>().unwrap()
}

async fn names(skills: &Svc<dyn Skills>) -> Vec<String> {
    let listed = skills.list(SkillLookup::default()).await.unwrap();
    listed.into_iter().map(|it| format!("{}:{}", it.provider, it.name)).collect()
}

#[test]
fn sk_01_of_one_name_the_lower_rank_wins_then_the_earlier_provider_then_the_earlier_place() {
    run(async |root| {
        let skills = skills(&root).await;
        skills
            .register(&root, fixed("a", vec![skill("a", "x", 20.0), skill("a", "y", 10.0), skill("a", "y", 10.0)]))
            .unwrap();
        skills
            .register(&root, fixed("b", vec![skill("b", "x", 10.0), skill("b", "y", 10.0), skill("b", "b", 1.0)]))
            .unwrap();
        assert_eq!(names(&skills).await, ["b:b", "b:x", "a:y"]);
        let found = skills.get("x", SkillLookup::default()).await.unwrap().unwrap();
        assert_eq!(found.content, "x@10 of b");
        assert_eq!(skills.get("nothing", SkillLookup::default()).await.unwrap(), None);
    });
}

#[test]
fn sk_02_a_provider_that_fails_is_left_out_and_is_back_the_next_time() {
    run(async |root| {
        let skills = skills(&root).await;
        let n_asked = Arc::new(AtomicU32::new(0));
        let asked = n_asked.clone();
        let listed: Listed = Arc::new(move || {
            let fails = asked.fetch_add(1, SeqCst) == 0;
            let answer = if fails { Err(Fault::msg("no network")) } else { Ok(vec![skill("shaky", "late", 1.0)]) };
            Box::pin(std::future::ready(answer))
        });
        skills.register(&root, Arc::new(Shelf { name: "shaky", listed })).unwrap();
        skills.register(&root, fixed("firm", vec![skill("firm", "early", 1.0)])).unwrap();
        assert_eq!(names(&skills).await, ["firm:early"]);
        assert_eq!(names(&skills).await, ["firm:early", "shaky:late"]);
        assert_eq!(names(&skills).await, ["firm:early", "shaky:late"]);
        assert_eq!(n_asked.load(SeqCst), 2, "a complete answer is remembered");
    });
}

#[test]
fn sk_03_a_provider_that_comes_while_skills_are_listed_is_in_the_result() {
    run(async |root| {
        let skills = skills(&root).await;
        let (service, ctx) = (root.get::<dyn Skills>().unwrap(), root.context().clone());
        let is_first = Arc::new(AtomicBool::new(true));
        let listed: Listed = Arc::new(move || {
            if is_first.swap(false, SeqCst) {
                service.register(&ctx, fixed("second", vec![skill("second", "new", 1.0)])).unwrap();
            }
            Box::pin(std::future::ready(Ok(vec![skill("first", "old", 1.0)])))
        });
        skills.register(&root, Arc::new(Shelf { name: "first", listed })).unwrap();
        assert_eq!(names(&skills).await, ["second:new", "first:old"]);
    });
}

#[test]
fn sk_04_the_end_of_the_signal_ends_the_look_up() {
    run(async |root| {
        let skills = skills(&root).await;
        let never: Listed = Arc::new(|| Box::pin(std::future::pending()));
        skills.register(&root, Arc::new(Shelf { name: "slow", listed: never })).unwrap();
        let lookup = SkillLookup::default();
        let listing = skills.list(lookup.clone());
        let mut listing = std::pin::pin!(listing);
        assert!(listing.as_mut().now_or_never().is_none());
        lookup.signal.cancel();
        assert_eq!(listing.await.unwrap_err().code(), "SKILL_LOOKUP_ABORTED");
    });
}

#[test]
fn what_is_no_skill_is_refused_by_name() {
    run(async |root| {
        let skills = skills(&root).await;
        let mut silent = skill("a", "quiet", 1.0);
        silent.summary.description = "  ".to_owned();
        for (bad, why) in [
            (skill("a", "Bad Name", 1.0), "lower-case"),
            (silent, "no description"),
            (skill("a", "nan", f64::NAN), "rank is NaN"),
            (skill("other", "foreign", 1.0), "comes from `other`"),
        ] {
            let handle = skills.register(&root, fixed("a", vec![bad])).unwrap();
            let error = skills.list(SkillLookup::default()).await.unwrap_err();
            assert_eq!(error.code(), "INVALID_SKILL");
            assert!(error.to_string().contains(why), "{error}");
            handle.dispose().await;
        }
    });
}

#[test]
fn skills_defined_at_run_time_have_rank_250_and_the_first_stays() {
    run(async |root| {
        let skills = skills(&root).await;
        let define = |content: &str| RuntimeSkill {
            name: "x".into(),
            description: "d".into(),
            when_to_use: None,
            content: content.into(),
        };
        skills.define(&root, define("first")).unwrap();
        let second = skills.define(&root, define("second")).unwrap();
        let found = async || skills.get("x", SkillLookup::default()).await.unwrap().unwrap().content;
        assert_eq!(found().await, "first");
        second.dispose().await;
        let better = skills.register(&root, fixed("p", vec![skill("p", "x", 249.0)])).unwrap();
        assert_eq!(found().await, "x@249 of p");
        better.dispose().await;
        assert_eq!(found().await, "first");
    });
}

#[test]
fn providers_come_and_go_with_their_plugins_and_are_told() {
    run(async |root| {
        let skills = skills(&root).await;
        let recorder = Recorder::new();
        recorder.note(&root, |it: &SkillProviderAdded| it.provider.name().to_owned()).unwrap();
        recorder.note(&root, |it: &SkillProviderRemoved| it.name.clone()).unwrap();
        leak_check(&root, async |ctx| {
            let plugin = ctx.mount_fn("p", async |ctx: Context, skills: Svc<dyn Skills>| {
                skills.register(&ctx, fixed("p", vec![skill("p", "x", 1.0)])).map(drop)
            });
            let plugin = plugin.unwrap();
            plugin.running().await.unwrap();
            assert_eq!(names(&skills).await, ["p:x"]);
            let taken = skills.register(ctx, fixed("p", vec![])).unwrap_err();
            assert_eq!(taken.code(), "DUPLICATE_SKILL_PROVIDER");
            assert_eq!(skills.register(ctx, fixed("runtime", vec![])).unwrap_err().code(), "DUPLICATE_SKILL_PROVIDER");
            plugin.dispose().await.unwrap();
            assert!(names(&skills).await.is_empty());
        })
        .await;
        assert_eq!(recorder.names(), ["skill/provider-added", "skill/provider-removed"]);
    });
}

#[test]
fn sp_07_a_listener_that_fails_takes_the_provider_back() {
    run(async |root| {
        let skills = skills(&root).await;
        let fails = root.on(|_: &SkillProviderAdded| Err::<(), _>(Fault::msg("no"))).unwrap();
        let error = skills.register(&root, fixed("p", vec![skill("p", "x", 1.0)])).unwrap_err();
        assert_eq!(error.code(), "CHANGE_REFUSED");
        assert!(names(&skills).await.is_empty());
        fails.dispose();
        skills.register(&root, fixed("p", vec![skill("p", "x", 1.0)])).unwrap();
        assert_eq!(names(&skills).await, ["p:x"]);
    });
}

#[test]
fn a_failing_listener_of_a_removal_does_not_starve_the_others() {
    run(async |root| {
        let skills = skills(&root).await;
        let heard = Arc::new(Mutex::new(Vec::new()));
        root.on(|_: &SkillProviderRemoved| -> () { panic!("not now") }).unwrap();
        let later = heard.clone();
        root.on(move |it: &SkillProviderRemoved| later.lock().unwrap().push(it.name.clone())).unwrap();
        skills.register(&root, fixed("p", vec![])).unwrap().dispose().await;
        assert_eq!(*heard.lock().unwrap(), ["p"]);
    });
}
