//! smoke
use linn_bus::*;
use std::sync::Arc;
use std::time::Duration;

#[derive(Event)]
#[event(name = "t/emit", mode = Emit)]
struct A(u32);
#[derive(Event)]
#[event(name = "t/bail", mode = Bail, output = u32)]
struct B;
#[derive(Event)]
#[event(name = "t/serial", mode = Serial, output = u32)]
struct S;
#[derive(Event)]
#[event(name = "t/parallel", mode = Parallel)]
struct P;
#[derive(Event)]
#[event(name = "t/waterfall", mode = Waterfall, output = u32)]
struct W;
#[derive(Event)]
#[event(name = "t/scoped", mode = Bail, output = u32, subject = key)]
struct Sc {
    key: Option<ScopeKey>,
}

#[service("greeter")]
trait Greeter {
    async fn greet(&self, n: &str) -> Result<String, ServiceError>;
    fn now(&self) -> Result<u32, ServiceError>;
}
struct G;
#[provider]
impl Greeter for G {
    async fn greet(&self, n: &str) -> Result<String, ServiceError> {
        Ok(format!("hi {n}"))
    }
    fn now(&self) -> Result<u32, ServiceError> {
        panic!("boo")
    }
}

#[test]
fn all() {
    linn_bus_test::run(async |root| {
        let n = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let m = n.clone();
        let l = root
            .on(move |a: &A| {
                m.fetch_add(a.0, std::sync::atomic::Ordering::SeqCst);
            })
            .unwrap();
        root.emit(&A(1));
        root.emit(&A(2));
        assert!(l.dispose());
        assert!(!l.dispose());
        root.emit(&A(2));
        assert_eq!(n.load(std::sync::atomic::Ordering::SeqCst), 3);
        root.on(|_: &B| None::<u32>).unwrap();
        root.on(|_: &B| Some(4)).unwrap();
        assert_eq!(root.bail(&B).unwrap(), Some(4));
        let c = root.context().clone();
        root.on(listener!(async move |_: &S| {
            c.sleep(Duration::from_secs(1)).await.ok();
            Some(9)
        }))
        .unwrap();
        assert_eq!(root.serial(&S).await.unwrap(), Some(9));
        root.on(async |_: &P| {}).unwrap();
        root.parallel(&P).await.unwrap();
        root.on(async |_: &W, next: Next<'_, W>| Ok::<_, ListenerError>(next.run().await? + next.run().await?))
            .unwrap();
        root.on(async |_: &W, next: Next<'_, W>| Ok::<_, ListenerError>(next.run().await? + 1)).unwrap();
        assert_eq!(root.waterfall(&W, async || 2).await.unwrap(), 6);
        let sc = root.scope().unwrap();
        sc.context().on(|_: &Sc| Some(1)).unwrap();
        assert_eq!(root.bail(&Sc { key: None }).unwrap(), None);
        assert_eq!(root.bail(&Sc { key: Some(sc.key().clone()) }).unwrap(), Some(1));
        sc.dispose().await.unwrap();
        assert_eq!(root.bail(&Sc { key: Some(sc.key().clone()) }).unwrap(), None);
        let f = root
            .mount_fn("user", async |ctx: Context, g: Svc<dyn Greeter>| {
                assert_eq!(g.greet("x").await.unwrap(), "hi x");
                assert!(matches!(g.now(), Err(ServiceError::Panicked { .. })));
                ctx.on(|_: &A| {}).unwrap();
            })
            .unwrap();
        assert_eq!(f.settled().await.unwrap(), FiberState::Pending);
        let p = root.provide::<dyn Greeter>(Arc::new(G)).unwrap();
        assert_eq!(f.settled().await.unwrap(), FiberState::Active);
        p.dispose().await;
        assert_eq!(f.settled().await.unwrap(), FiberState::Pending);
        f.dispose().await.unwrap();
        assert_eq!(f.state(), FiberState::Disposed);
        root.fiber().dispose().await.unwrap();
        assert!(root.inspect().events.is_empty(), "{:?}", root.inspect());
    });
}
