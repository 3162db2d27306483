//! Commands.

use std::sync::Arc;

use linn_bus::{BoxFuture, Fault, Root, Svc};
use linn_bus_test::{leak_check, run};
use linn_services::commands::{Command, CommandBody, CommandCall, CommandOutput, Commands, CommandsPlugin};
use linn_services::events::CommandsChange;

struct Echo;

impl CommandBody for Echo {
    fn run<'a>(&'a self, call: CommandCall) -> BoxFuture<'a, Result<CommandOutput, Fault>> {
        Box::pin(async move {
            match call.arguments.as_str() {
                "" => Err(Fault::msg("nothing to say")),
                text => Ok(CommandOutput::Text(text.to_owned())),
            }
        })
    }
}

fn echo(name: &str) -> Command {
    Command::new(name, "says it again", Arc::new(Echo))
}

async fn commands(root: &Root) -> Svc<dyn Commands> {
    root.mount::<CommandsPlugin>(()).unwrap().running().await.unwrap();
    root.get::<dyn Commands>().unwrap()
}

fn call(arguments: &str) -> CommandCall {
    CommandCall { agent: None, arguments: arguments.to_owned() }
}

#[test]
fn a_command_is_found_by_name_and_runs() {
    run(async |root| {
        let commands = commands(&root).await;
        leak_check(&root, async |ctx| {
            let handle = commands.register(ctx, echo("echo")).unwrap();
            assert_eq!(commands.run("echo", call("hi")).await.unwrap(), CommandOutput::Text("hi".into()));
            assert_eq!(commands.run("echo", call("")).await.unwrap_err().code(), "COMMAND_FAILED");
            assert_eq!(commands.list().unwrap()[0].plugin, ctx.plugin());
            assert_eq!(commands.register(ctx, echo("echo")).unwrap_err().code(), "DUPLICATE_COMMAND");
            handle.dispose().await;
        })
        .await;
    });
}

#[test]
fn an_unknown_command_names_the_nearest() {
    run(async |root| {
        let commands = commands(&root).await;
        commands.register(&root, echo("review")).unwrap();
        let error = commands.run("reveiw", call("")).await.unwrap_err();
        assert_eq!(error.to_string(), "there is no command `/reveiw`; did you mean `/review`?");
        let error = commands.run("zzz", call("")).await.unwrap_err();
        assert_eq!(error.to_string(), "there is no command `/zzz`");
    });
}

#[test]
fn a_listener_that_fails_takes_the_command_back() {
    run(async |root| {
        let commands = commands(&root).await;
        root.once().on(|_: &CommandsChange| Err::<(), _>(Fault::msg("no"))).unwrap();
        assert_eq!(commands.register(&root, echo("echo")).unwrap_err().code(), "CHANGE_REFUSED");
        assert!(commands.list().unwrap().is_empty());
        commands.register(&root, echo("echo")).unwrap();
    });
}
