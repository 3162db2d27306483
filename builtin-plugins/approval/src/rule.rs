//! Configured rules.

use linn_services::approval::ApprovalRuleReport;

use crate::config::ApprovalGateConfig;
use crate::glob::{fits, literal_prefix};

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Allow,
    Deny,
    Ask,
}

/// A rule: the calls of a tool that fit a pattern, or are about exactly one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Name of the tool in small letters; `*` for each.
    pub(crate) tool: String,
    /// What the calls fit; `*` for all.
    pub(crate) pattern: String,
    /// `*` and `?` in the pattern stand for themselves.
    pub(crate) is_exact: bool,
}

impl Rule {
    pub(crate) fn new(tool: &str, pattern: &str) -> Self {
        let pattern = if pattern.is_empty() { "*" } else { pattern };
        Self { tool: tool.to_lowercase(), pattern: pattern.to_owned(), is_exact: false }
    }

    /// The calls that are about exactly this.
    pub(crate) fn exact(tool: &str, target: &str) -> Self {
        Self { tool: tool.to_lowercase(), pattern: target.to_owned(), is_exact: true }
    }

    /// Whether it is about this tool, named in small letters.
    pub(crate) fn is_about(&self, tool: &str) -> bool {
        self.tool == "*" || self.tool == tool
    }

    /// Whether it is about all calls of its tool.
    pub(crate) fn is_for_all(&self) -> bool {
        !self.is_exact && self.pattern.chars().all(|it| it == '*')
    }

    /// Whether a text fits it.
    pub(crate) fn fits(&self, text: &str) -> bool {
        if self.is_exact { self.pattern == text } else { fits(&self.pattern, text) }
    }

    /// What a text has to begin with to fit.
    pub(crate) fn literal_prefix(&self) -> &str {
        if self.is_exact { &self.pattern } else { literal_prefix(&self.pattern) }
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.tool, self.pattern)
    }
}

/// All rules, read.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) allow: Vec<Rule>,
    pub(crate) deny: Vec<Rule>,
    pub(crate) ask: Vec<Rule>,
    pub(crate) reports: Vec<ApprovalRuleReport>,
}

impl Rules {
    /// Reads the rules of a config. One that cannot be read must not open the gate: it allows nothing, and where it was to
    /// deny or to ask, every call is asked about.
    pub(crate) fn read(config: &ApprovalGateConfig) -> Self {
        let mut rules = Self::default();
        let written = [(Effect::Allow, &config.allow), (Effect::Deny, &config.deny), (Effect::Ask, &config.ask)];
        for (effect, text) in written.into_iter().flat_map(|(effect, texts)| texts.iter().map(move |it| (effect, it))) {
            rules.add(effect, text);
        }
        rules
    }

    fn add(&mut self, effect: Effect, text: &str) {
        let word = match effect {
            Effect::Allow => "allow",
            Effect::Deny => "deny",
            Effect::Ask => "ask",
        };
        let problem = match (effect, split(text)) {
            (_, Some((tool, pattern))) => {
                let rule = Rule::new(tool, pattern);
                let problem = problem_of(effect, &rule);
                match effect {
                    Effect::Allow => self.allow.push(rule),
                    Effect::Deny => self.deny.push(rule),
                    Effect::Ask => self.ask.push(rule),
                }
                problem
            }
            (Effect::Allow, None) => Some("it is not `tool` or `tool(pattern)`, and so allows nothing".to_owned()),
            (Effect::Deny | Effect::Ask, None) => {
                self.ask.push(Rule::new("*", "*"));
                Some("it is not `tool` or `tool(pattern)`, and so every call is asked about".to_owned())
            }
        };
        self.reports.push(ApprovalRuleReport { rule: format!("{word} {text}"), problem });
    }
}

/// Tool and pattern of `tool(pattern)` or `tool`.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let (tool, pattern) = match text.split_once('(') {
        Some((tool, rest)) => (tool.trim(), rest.strip_suffix(')')?),
        None => (text, ""),
    };
    let is_name = !tool.is_empty() && !tool.contains([' ', '\t', '\n', ')']);
    is_name.then_some((tool, pattern))
}

/// Why a rule does not do what it seems to.
fn problem_of(effect: Effect, rule: &Rule) -> Option<String> {
    if effect != Effect::Allow || rule.is_for_all() {
        return None;
    }
    if let Some(separator) = ["&&", "||", ";", "|", "\n"].iter().find(|it| rule.pattern.contains(**it)) {
        let separator = separator.escape_debug();
        let is_exact = !rule.pattern.contains(['*', '?']);
        let what = if is_exact { "allows this very line and none like it" } else { "is useless" };
        return Some(format!(
            "it {what}: a rule is held against each simple command of a line by itself, and none of these holds \
             `{separator}`; write one rule for each command"
        ));
    }
    rule.pattern
        .starts_with(['*', '?'])
        .then(|| "it is too wide: it begins with any text, so it allows any command".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(allow: &str) -> Option<String> {
        let config = ApprovalGateConfig { allow: vec![allow.to_owned()], ..ApprovalGateConfig::default() };
        Rules::read(&config).reports.remove(0).problem
    }

    #[test]
    fn r081_a_rule_that_holds_a_separator_is_reported() {
        let problem = problem("bash(cd sub && *)").unwrap();
        assert!(problem.contains("useless") && problem.contains("`&&`"), "{problem}");
    }

    #[test]
    fn rules_are_read() {
        assert_eq!(problem("bash(git *)"), None);
        assert_eq!(problem("Write_File"), None);
        assert!(problem("bash(* --help)").unwrap().contains("too wide"));
        let config = ApprovalGateConfig {
            allow: vec!["Bash( git *)".into(), "read_file".into(), "edit()".into()],
            ..ApprovalGateConfig::default()
        };
        let texts: Vec<String> = Rules::read(&config).allow.iter().map(Rule::to_string).collect();
        assert_eq!(texts, ["bash( git *)", "read_file(*)", "edit(*)"]);
    }

    #[test]
    fn a_rule_that_cannot_be_read_opens_nothing() {
        for bad in ["bash(git *", "git status", "", "(x)"] {
            let list = || vec![bad.to_owned()];
            let rules = Rules::read(&ApprovalGateConfig { allow: list(), ..ApprovalGateConfig::default() });
            assert!(rules.allow.is_empty() && rules.ask.is_empty(), "{bad}");
            assert!(rules.reports[0].problem.as_ref().unwrap().contains("allows nothing"));
            for config in [
                ApprovalGateConfig { deny: list(), ..ApprovalGateConfig::default() },
                ApprovalGateConfig { ask: list(), ..ApprovalGateConfig::default() },
            ] {
                let rules = Rules::read(&config);
                assert_eq!(rules.ask, [Rule::new("*", "*")], "{bad}");
                assert!(rules.reports[0].problem.is_some());
            }
        }
    }
}
