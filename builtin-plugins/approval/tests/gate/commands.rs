//! Command lines: none gets past a rule or a permission that does not mean it.

use linn_bus_test::run;
use linn_plugin_approval::ApprovalGateConfig;
use linn_services::approval::{ApprovalMode, Permission, PermissionScope};

use crate::support::{Desk, rules};

/// Every line is asked about under these allow rules.
fn all_asked(allow: &'static [&'static str], lines: &'static [&'static str]) {
    run(async |root| {
        let desk = Desk::new(&root, rules(allow, &[], &[])).await;
        for line in lines {
            let outcome = desk.bash(line).await;
            assert!(outcome.was_asked() && !outcome.has_run, "{line:?}: {outcome:?}");
        }
    });
    // A pattern that a human permitted is no wider than the same pattern in a rule.
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        for pattern in allow {
            let pattern = pattern.trim_start_matches("bash(").trim_end_matches(')');
            desk.will_permit(PermissionScope::Pattern(Some(pattern.to_owned())));
            let like = pattern.replace('*', "x");
            assert!(desk.bash(&like).await.was_asked());
            assert!(desk.bash(&like).await.ran_unasked(), "{like}");
        }
        for line in lines {
            let outcome = desk.bash(line).await;
            assert!(outcome.was_asked() && !outcome.has_run, "{line:?}: {outcome:?}");
        }
    });
}

/// None of the lines runs where a human permitted the pattern, unless the human says yes once more.
fn not_granted(config: ApprovalGateConfig, pattern: &'static str, lines: &'static [&'static str]) {
    run(async |root| {
        let desk = Desk::new(&root, config.clone()).await;
        let permitted = vec![Permission::Pattern { tool: "bash".into(), pattern: pattern.to_owned() }];
        desk.modes.restore(desk.agent.session(), permitted).unwrap();
        for mode in [ApprovalMode::Destructive, ApprovalMode::Always] {
            desk.modes.set_mode(mode).unwrap();
            for line in lines {
                let outcome = desk.bash(line).await;
                assert!(
                    !outcome.has_run && (outcome.was_asked() || outcome.was_denied()),
                    "{pattern} {line}: {outcome:?}"
                );
            }
        }
    });
}

#[test]
fn r073_every_command_of_a_line_has_to_be_allowed() {
    all_asked(
        &["bash(git *)"],
        &[
            "git status; touch pwned",
            "git status && touch pwned",
            "git no-such-command || touch pwned",
            "git status | touch pwned",
            "git status & touch pwned",
            "git status |& touch pwned",
        ],
    );
    run(async |root| {
        let desk = Desk::new(&root, rules(&["bash(git *)", "bash(wc *)"], &[], &[])).await;
        assert!(desk.bash("git status; git log | wc -l").await.ran_unasked());
    });
}

#[test]
fn r074_a_line_feed_parts_commands() {
    all_asked(&["bash(echo *)"], &["echo safe\ntouch pwned", "echo safe\r\ntouch pwned"]);
    run(async |root| {
        let desk = Desk::new(&root, rules(&["bash(echo *)"], &[], &[])).await;
        let asked = desk.bash("echo safe\ntouch pwned").await.asked;
        assert_eq!(asked[0].arguments.as_ref().unwrap()["command"], "echo safe\ntouch pwned", "both lines are shown");
    });
}

#[test]
fn r075_substitutions_are_asked_about() {
    all_asked(
        &["bash(echo *)", "bash(git *)"],
        &[
            "echo \"$(touch pwned)\"",
            "echo `touch pwned`",
            "git log --format=\"$(touch pwned)\"",
            "echo \"`touch pwned`\"",
            "echo ${x:=$(touch pwned)}",
            "echo <(touch pwned)",
        ],
    );
}

#[test]
fn r076_redirects_into_files_are_asked_about() {
    all_asked(
        &["bash(echo *)", "bash(git log *)"],
        &[
            "echo x > pwned",
            "git log --oneline >> pwned",
            "echo x >| pwned",
            "echo x >pwned",
            "echo x 2>pwned",
            "echo x &>pwned",
        ],
    );
    run(async |root| {
        let desk = Desk::new(&root, rules(&["bash(echo *)"], &[], &[])).await;
        assert!(desk.bash("echo x >/dev/null 2>&1").await.ran_unasked());
    });
}

#[test]
fn r077_assignments_are_part_of_what_has_to_be_allowed() {
    all_asked(
        &["bash(git *)"],
        &[
            "PAGER='touch pwned' git -p log",
            "GIT_EXTERNAL_DIFF='touch pwned' git diff",
            "env PAGER='touch pwned' git -p log",
        ],
    );
    run(async |root| {
        let desk = Desk::new(&root, rules(&["bash(LC_ALL=C git *)"], &[], &[])).await;
        assert!(desk.bash("LC_ALL=C git log").await.ran_unasked());
    });
}

#[test]
fn r078_an_option_before_the_subcommand_hides_nothing() {
    run(async |root| {
        let config = rules(&["bash(git checkout *)"], &["bash(git checkout -- *)"], &[]);
        let desk = Desk::new(&root, config.clone()).await;
        for mode in [ApprovalMode::Destructive, ApprovalMode::Never] {
            desk.modes.set_mode(mode).unwrap();
            for line in ["git -C . checkout -- a.txt", "git --no-pager checkout -- a.txt", "git checkout -q -- a.txt"] {
                let outcome = desk.bash(line).await;
                assert!(!outcome.has_run, "{mode:?} {line}: {outcome:?}");
            }
            assert!(desk.bash("git checkout -- a.txt").await.was_denied());
            assert!(desk.bash("git checkout main").await.ran_unasked());
        }
    });
    let lines = &["git -C . checkout -- a.txt", "git --no-pager checkout -- a.txt", "git checkout -- a.txt"];
    for pattern in ["git checkout *", "git *", "git -C *", "*"] {
        not_granted(rules(&[], &["bash(git checkout -- *)"], &[]), pattern, lines);
    }
}

#[test]
fn r079_wrappers_hide_nothing() {
    let lines = [
        "sh -c 'touch pwned'",
        "bash -lc 'touch pwned'",
        "eval 'touch pwned'",
        "xargs -I{} touch {} < list.txt",
        "xargs touch",
        "/bin/sh -c 'touch pwned'",
        "t\\ouch pwned",
        "'touch' pwned",
        "/usr/bin/touch pwned",
        "X=1 touch pwned",
        "$(echo touch) pwned",
        "echo x | sh",
        "python3.12 -c 'import os; os.mknod(\"pwned\")'",
        "taskset 1 touch pwned",
        "setpriv touch pwned",
        "toybox touch pwned",
        "hash -p /usr/bin/touch ls; ls pwned",
        "compgen -C 'touch pwned'",
    ];
    let never = ApprovalGateConfig { mode: ApprovalMode::Never, ..rules(&[], &["bash(touch *)"], &[]) };
    for config in [never, rules(&["bash"], &["bash(touch *)"], &[]), rules(&["*(*)"], &["bash(touch *)"], &[])] {
        run(async |root| {
            let desk = Desk::new(&root, config.clone()).await;
            for line in lines {
                let outcome = desk.bash(line).await;
                assert!(!outcome.has_run, "{line}: {outcome:?}");
            }
            assert!(desk.bash("touch pwned").await.was_denied());
            assert!(desk.bash("ls; touch pwned").await.was_denied());
            assert!(desk.bash("ls -l; echo touch").await.ran_unasked());
            assert!(desk.bash("sh -c 'ls'").await.reason().contains("runs other commands"));
        });
    }
    let lines = &[
        "sh -c 'touch pwned'",
        "bash -lc 'touch pwned'",
        "eval 'touch pwned'",
        "xargs -I{} touch {} < list.txt",
        "touch pwned",
    ];
    for pattern in ["sh *", "bash *", "eval *", "xargs *", "touch *", "*"] {
        not_granted(rules(&[], &["bash(touch *)"], &[]), pattern, lines);
    }
}

#[test]
fn r080_separators_in_quotes_are_no_separators() {
    run(async |root| {
        let desk = Desk::new(&root, rules(&["bash(echo *)"], &[], &[])).await;
        for line in ["echo \"a && b; c | d\"", "echo 'x > y'"] {
            assert!(desk.bash(line).await.ran_unasked(), "{line}");
        }
    });
    // The same where a human permitted the pattern.
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        desk.will_permit(PermissionScope::Pattern(Some("echo *".to_owned())));
        assert!(desk.bash("echo x").await.was_asked());
        for line in ["echo \"a && b; c | d\"", "echo 'x > y'"] {
            assert!(desk.bash(line).await.ran_unasked(), "{line}");
        }
    });
}

#[test]
fn r081_a_rule_for_a_whole_line_is_reported_and_allows_nothing() {
    run(async |root| {
        let desk = Desk::new(&root, rules(&["bash(cd sub && *)"], &[], &[])).await;
        assert!(desk.bash("cd sub && touch pwned").await.was_asked());
        let reports = desk.modes.rules().unwrap();
        assert_eq!(reports[0].rule, "allow bash(cd sub && *)");
        assert!(reports[0].problem.as_ref().unwrap().contains("useless"));
    });
    for pattern in ["cd sub && *", "cd *", "cd sub*"] {
        not_granted(ApprovalGateConfig::default(), pattern, &["cd sub && touch pwned", "cd sub; touch pwned"]);
    }
}

#[test]
fn r082_what_cannot_be_read_is_asked_about() {
    all_asked(
        &["bash(echo *)"],
        &["echo \"unclosed", "echo $((", "echo a\u{0}; touch pwned", "echo \u{202e}dnwp hcuot"],
    );
}

#[test]
fn r083_always_is_as_narrow_as_what_was_shown() {
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        desk.will_permit(PermissionScope::Pattern(None));
        assert!(desk.bash("touch a.txt").await.has_run);
        let permitted = desk.modes.permissions(desk.agent.session()).unwrap();
        assert_eq!(permitted.iter().map(|it| it.text()).collect::<Vec<_>>(), ["bash touch a.txt"]);
        assert!(desk.bash("touch a.txt").await.ran_unasked());
        for line in ["touch b.txt", "touch a.txt; touch pwned", "touch a.txt b.txt", "touch a.txt > pwned", "touch  $a"]
        {
            let outcome = desk.bash(line).await;
            assert!(outcome.was_asked() && !outcome.has_run, "{line}: {outcome:?}");
        }
    });
}

#[test]
fn r083_stars_in_what_was_shown_stand_for_themselves() {
    let none: Option<String> = None;
    for pattern in [none, Some("touch *.txt".to_owned())] {
        run(async |root| {
            let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
            desk.will_permit(PermissionScope::Pattern(pattern.clone()));
            assert!(desk.bash("touch *.txt").await.has_run);
            let permitted = desk.modes.permissions(desk.agent.session()).unwrap();
            assert_eq!(permitted.iter().map(Permission::text).collect::<Vec<_>>(), ["bash touch *.txt"]);
            assert!(desk.bash("touch *.txt").await.ran_unasked());
            for line in ["touch pwned a.txt", "touch /etc/pwned.txt", "touch *.txt; touch b.txt", "touch *.txt pwned"] {
                let outcome = desk.bash(line).await;
                assert!(outcome.was_asked() && !outcome.has_run, "{line:?}: {outcome:?}");
            }
        });
    }
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        desk.will_permit(PermissionScope::Pattern(None));
        assert!(desk.path("write_file", "notes/?.md").await.has_run);
        assert!(desk.path("write_file", "notes/?.md").await.ran_unasked());
        assert!(desk.path("write_file", "notes/a.md").await.was_asked());
    });
}

#[test]
fn r083_a_line_that_was_shown_whole_is_permitted_whole() {
    run(async |root| {
        let desk = Desk::new(&root, ApprovalGateConfig::default()).await;
        let line = "cd sub && make $TARGET > log";
        desk.will_permit(PermissionScope::Pattern(None));
        assert!(desk.bash(line).await.has_run);
        assert!(desk.bash(line).await.ran_unasked());
        assert!(desk.bash("cd sub && make $TARGET > log2").await.was_asked());
    });
}

#[test]
fn a_permission_and_a_rule_may_share_a_line() {
    run(async |root| {
        let desk = Desk::new(&root, rules(&["bash(git *)"], &[], &[])).await;
        desk.will_permit(PermissionScope::Pattern(Some("make *".to_owned())));
        assert!(desk.bash("make x").await.has_run);
        assert!(desk.bash("git status && make y").await.ran_unasked());
    });
}

#[test]
fn a_permission_does_not_answer_for_what_may_be_denied() {
    run(async |root| {
        let desk = Desk::new(&root, rules(&[], &["bash(touch *)"], &[])).await;
        desk.will_permit(PermissionScope::Class);
        assert!(desk.bash("ls").await.has_run);
        assert!(desk.bash("make").await.was_asked(), "`make` runs other commands");
        assert!(desk.bash("ls -l").await.ran_unasked());
        assert!(desk.bash("touch x").await.was_denied());
        desk.will_permit(PermissionScope::Pattern(None));
        assert!(desk.bash("sh -c 'touch x'").await.has_run);
        assert!(desk.bash("sh -c 'touch x'").await.ran_unasked(), "this very line was shown");
        assert!(!desk.bash("sh -c 'touch y'").await.has_run);
    });
}
