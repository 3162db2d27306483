//! Commands that ask for more rights.

/// Words before a command that run it.
const CARRIERS: &[&str] = &[
    "!", "builtin", "command", "do", "elif", "else", "env", "exec", "if", "nice", "nohup", "setsid", "then", "time",
    "until", "while", "xargs", "{",
];

/// Whether a line calls `sudo`.
///
/// It looks at the words of the line and runs nothing: what hides `sudo` in a variable or in the text of another shell is
/// not found, and then `sudo` fails by itself, since it can ask nobody.
pub(crate) fn calls_sudo(line: &str) -> bool {
    commands(line).iter().any(|words| first_program(words).is_some_and(|it| it == "sudo" || it.ends_with("/sudo")))
}

/// The program that a simple command runs, behind assignments and words that run another command.
fn first_program(words: &[String]) -> Option<&str> {
    let mut carried = false;
    for word in words {
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
        });
        let is_option = carried && (word.starts_with('-') || word.chars().all(|it| it.is_ascii_digit()));
        if CARRIERS.contains(&word.as_str()) {
            carried = true;
        } else if !is_assignment && !is_option {
            return Some(word);
        }
    }
    None
}

/// The words of each simple command; quotes are taken away and hold words together, and substitutions are commands of their
/// own, also within double quotes.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word = String::new();
    let mut characters = line.chars().peekable();
    let mut in_double = false;
    let end_word = |word: &mut String, commands: &mut Vec<Vec<String>>| {
        if !word.is_empty() {
            commands.last_mut().expect("there is always one").push(std::mem::take(word));
        }
    };
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.extend(characters.next().filter(|it| *it != '\n')),
            '\'' if !in_double => word.extend(characters.by_ref().take_while(|it| *it != '\'')),
            '"' => in_double = !in_double,
            '$' if characters.peek() == Some(&'(') => {
                characters.next();
                end_word(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            '`' | ')' => {
                end_word(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            ';' | '|' | '&' | '\n' | '(' if !in_double => {
                end_word(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            // A text within double quotes may hold a substitution, whose words are told apart as well.
            it if it.is_whitespace() => end_word(&mut word, &mut commands),
            it => word.push(it),
        }
    }
    end_word(&mut word, &mut commands);
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_wherever_a_command_may_stand() {
        for line in [
            "sudo ls",
            "cd /tmp && sudo ls",
            "ls | sudo tee /etc/a",
            "A=1 B='x y' sudo ls",
            "/usr/bin/sudo ls",
            "if true; then sudo ls; fi",
            "env A=1 sudo -n ls",
            "time -p sudo ls",
            "echo $(sudo cat /etc/shadow)",
            "echo \"it is $(sudo id)\"",
            "echo `sudo id`",
            "(sudo ls)",
            "ls\nsudo ls",
            "su\\do ls",
            "\"sudo\" ls",
            "{ sudo ls; }",
            "nice -n 5 sudo ls",
        ] {
            assert!(calls_sudo(line), "{line}");
        }
    }

    #[test]
    fn the_word_alone_is_no_call() {
        for line in
            ["echo sudo", "grep sudo file", "echo 'a; sudo ls'", "man sudo", "pseudo sudo", "ls sudo/", "visudo"]
        {
            assert!(!calls_sudo(line), "{line}");
        }
    }
}
