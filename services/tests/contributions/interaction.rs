//! Questions to a human.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use linn_bus::{Next, Root, Svc};
use linn_bus_test::run;
use linn_services::events::{InteractionAsk, InteractionSudo};
use linn_services::interaction::{
    Answers, Interaction, InteractionPlugin, Password, Question, QuestionKind, Questions, SudoAnswer, SudoQuestion,
};
use tokio_util::sync::CancellationToken;

async fn interaction(root: &Root) -> Svc<dyn Interaction> {
    root.mount::<InteractionPlugin>(()).unwrap().running().await.unwrap();
    root.get::<dyn Interaction>().unwrap()
}

fn question(id: &str, kind: QuestionKind, options: &[&str]) -> Question {
    Question {
        id: id.to_owned(),
        prompt: format!("what is {id}?"),
        kind,
        options: options.iter().map(|it| (*it).to_owned()).collect(),
        allow_custom: None,
        placeholder: None,
        required: None,
    }
}

fn ask(questions: Vec<Question>) -> Questions {
    Questions { agent: None, call_id: None, questions, signal: CancellationToken::new() }
}

#[test]
fn nobody_who_listens_is_nobody_who_answers() {
    run(async |root| {
        let interaction = interaction(&root).await;
        let asked = interaction.ask(ask(vec![question("a", QuestionKind::Text, &[])])).await;
        assert_eq!(asked.unwrap(), Answers::Unavailable);
        let sudo =
            SudoQuestion { agent: None, call_id: None, command: "sudo ls".into(), signal: CancellationToken::new() };
        assert_eq!(interaction.sudo(sudo).await.unwrap(), SudoAnswer::Unavailable);
    });
}

#[test]
fn answers_to_what_was_not_asked_and_empty_ones_are_left_out() {
    run(async |root| {
        let interaction = interaction(&root).await;
        root.on(async |_: &InteractionAsk, _: Next<'_, InteractionAsk>| {
            let given = [("a", "1"), ("b", ""), ("other", "2")].map(|(id, it)| (id.to_owned(), it.to_owned()));
            Answers::Given(given.into_iter().collect())
        })
        .unwrap();
        let asked = ask(vec![question("a", QuestionKind::Text, &[]), question("b", QuestionKind::Text, &[])]);
        let expected = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        assert_eq!(interaction.ask(asked).await.unwrap(), Answers::Given(expected));
    });
}

#[test]
fn questions_that_cannot_be_asked_say_why() {
    run(async |root| {
        let interaction = interaction(&root).await;
        let text = |id| question(id, QuestionKind::Text, &[]);
        for (bad, why) in [
            (vec![], "there is no question"),
            (vec![text("")], "has no id"),
            (vec![text("a"), text("a")], "two questions have the id \"a\""),
            (vec![question("a", QuestionKind::Select, &[])], "a select without options"),
        ] {
            let error = interaction.ask(ask(bad)).await.unwrap_err();
            assert!(
                error.to_string().starts_with("ask validation failed: ") && error.to_string().contains(why),
                "{error}"
            );
        }
    });
}

#[test]
fn a_question_can_be_taken_back() {
    run(async |root| {
        let interaction = interaction(&root).await;
        root.on(async |_: &InteractionAsk, _: Next<'_, InteractionAsk>| std::future::pending::<Answers>().await)
            .unwrap();
        let questions = ask(vec![question("a", QuestionKind::Text, &[])]);
        let signal = questions.signal.clone();
        let mut asked = std::pin::pin!(interaction.ask(questions));
        assert!(asked.as_mut().now_or_never().is_none());
        signal.cancel();
        assert_eq!(asked.await.unwrap_err().code(), "QUESTION_CANCELLED");
    });
}

#[test]
fn a_password_is_shown_nowhere() {
    run(async |root| {
        let interaction = interaction(&root).await;
        root.on(async |_: &InteractionSudo, _: Next<'_, InteractionSudo>| {
            SudoAnswer::Approved(Password::new("hunter2".to_owned()))
        })
        .unwrap();
        let sudo =
            SudoQuestion { agent: None, call_id: None, command: "sudo ls".into(), signal: CancellationToken::new() };
        let answer = interaction.sudo(sudo).await.unwrap();
        let SudoAnswer::Approved(password) = &answer else { panic!("{answer:?}") };
        assert_eq!(password.reveal(), "hunter2");
        assert!(!format!("{answer:?} {password:?}").contains("hunter2"));
    });
}
