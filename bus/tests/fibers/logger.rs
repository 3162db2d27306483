//! Loggers: whose name stands on a line.

use linn_bus::{Logger, ServiceError, Svc, provider, service};
use linn_bus_test::run;
use std::sync::Arc;

use crate::support::{Log, logged, mount};

/// Says who logs in it.
#[service("fibers/talker")]
trait Talker {
    fn own(&self) -> Result<String, ServiceError>;
    fn of(&self, caller: &linn_bus::Context) -> Result<String, ServiceError>;
}

struct Talks(linn_bus::Context);

#[provider]
impl Talker for Talks {
    fn own(&self) -> Result<String, ServiceError> {
        self.0.logger().info("own");
        Ok(self.0.logger().name().to_owned())
    }
    fn of(&self, caller: &linn_bus::Context) -> Result<String, ServiceError> {
        Ok(caller.logger().name().to_owned())
    }
}

#[test]
fn lg_01_a_logger_has_the_name_of_its_context() {
    run(async |root| {
        let log = Log::default();
        assert_eq!(root.logger().name(), "root");
        assert_eq!(Logger::new("custom").name(), "custom");
        assert_eq!(root.named("named").logger().name(), "named");
        let talker = mount(&root, "talker", |ctx, ()| {
            ctx.provide::<dyn Talker>(Arc::new(Talks(ctx.clone())))?;
            Ok(())
        });
        talker.settled().await.unwrap();
        let inner = log.clone();
        let user = move |ctx: &linn_bus::Context, talker: Svc<dyn Talker>| {
            inner.add(ctx.logger().name());
            inner.add(talker.own()?);
            inner.add(talker.of(ctx)?);
            inner.add(talker.of(&ctx.named("override"))?);
            Ok(())
        };
        mount(&root, "user", user.clone()).settled().await.unwrap();
        assert_eq!(log.take(), "user talker user override");
        mount(&root.named("outer"), "user", user).settled().await.unwrap();
        assert_eq!(log.take(), "outer talker outer override");
    });
}

#[test]
fn lines_carry_level_and_name() {
    let lines = logged(|| {
        let logger = Logger::new("custom");
        logger.error("a");
        logger.warn("b");
        logger.info("c");
        logger.debug(format_args!("{}", 1 + 1));
    });
    assert_eq!(lines, ["ERROR custom: a", "WARN custom: b", "INFO custom: c", "DEBUG custom: 2"]);
}
