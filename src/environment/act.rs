//! Plays one act of a reference solution in a session. Contents go over standard input, never through a command line, so that any
//! text and any path arrive as they are.

use std::time::Duration;

use crate::sandbox::{CommandOutput, SandboxError, Session};
use crate::task::ActCall;

/// Replaces the one occurrence of a text in a file: the request is JSON on standard input.
const EDIT_PROGRAM: &str = r#"import json, sys
request = json.loads(sys.stdin.buffer.read())
path = request["path"]
find, replace = request["find"].encode(), request["replace"].encode()
try:
    with open(path, "rb") as file:
        text = file.read()
except OSError as error:
    sys.exit(f"{path}: {error.strerror}")
if not find:
    sys.exit("the text to find is empty")
count = text.count(find)
if count != 1:
    sys.exit(f"{path}: the text to find occurs {count} times; it must occur exactly once")
try:
    with open(path, "wb") as file:
        file.write(text.replace(find, replace))
except OSError as error:
    sys.exit(f"{path}: {error.strerror}")"#;

/// Plays `call` in the session's workspace and returns what it printed. Paths are taken relative to the workspace, wherever the
/// shell stands; a failed act is an output with a non-zero exit, not an error.
///
/// # Errors
/// When the session is gone.
pub async fn perform(session: &mut dyn Session, call: &ActCall, timeout: Duration) -> Result<CommandOutput, SandboxError> {
    let (command, stdin) = script(call);
    let command = in_folder(session.workspace(), &command);
    session.run(&command, &stdin, timeout).await
}

/// The shell command that plays `call`, and its standard input.
fn script(call: &ActCall) -> (String, String) {
    match call {
        ActCall::Run { command } => (command.clone(), String::new()),
        ActCall::Python { code } => ("python3 -I -".to_owned(), code.clone()),
        ActCall::Write { path, content } => {
            let make_parent = match path.trim_end_matches('/').rsplit_once('/') {
                Some((parent, _)) if !parent.is_empty() => format!("mkdir -p -- {} && ", quote_path(parent)),
                _ => String::new(),
            };
            (format!("{make_parent}cat > {}", quote_path(path)), content.clone())
        }
        ActCall::Edit { path, find, replace } => {
            let request = serde_json::json!({ "path": path, "find": find, "replace": replace });
            (format!("python3 -I -c {}", quote_word(EDIT_PROGRAM)), request.to_string())
        }
        ActCall::Read { path } => (format!("cat -- {}", quote_path(path)), String::new()),
    }
}

/// `command` in a subshell that stands in `folder`, so that neither a `cd`, a variable nor an `exit` outlives it.
pub(super) fn in_folder(folder: &str, command: &str) -> String {
    format!("(cd -- {} || exit 125\n{command}\n)", quote_word(folder))
}

/// A path as one word of a command, never taken for an option.
fn quote_path(path: &str) -> String {
    if path.starts_with('/') { quote_word(path) } else { quote_word(&format!("./{path}")) }
}

/// `text` as one word of a shell command.
fn quote_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays acts in a plain shell over a temporary folder: quoting and the edit program need no sandbox to be right or wrong.
    struct PlainShell {
        folder: tempfile::TempDir,
        path: String,
    }

    impl PlainShell {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().to_str().unwrap().to_owned();
            Self { folder, path }
        }

        fn play(&self, call: &ActCall) -> (i32, String) {
            use std::io::Write as _;
            let (command, stdin) = script(call);
            let mut child = std::process::Command::new("bash")
                .args(["-c", &in_folder(&self.path, &command)])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
            let output = child.wait_with_output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            (output.status.code().unwrap(), String::from_utf8(text).unwrap())
        }
    }

    fn write(path: &str, content: &str) -> ActCall {
        ActCall::Write { path: path.to_owned(), content: content.to_owned() }
    }

    fn edit(path: &str, find: &str, replace: &str) -> ActCall {
        ActCall::Edit { path: path.to_owned(), find: find.to_owned(), replace: replace.to_owned() }
    }

    #[test]
    fn any_path_and_content_arrive_as_they_are() {
        let shell = PlainShell::new();
        let content = "it's $HOME `id` \"x\" \\n\n\tEOF\nno newline at the end";
        for path in ["a", "-rf", "it's/a b/$(id)\n.txt", "--/x", "*"] {
            assert_eq!(shell.play(&write(path, content)), (0, String::new()), "{path:?}");
            assert_eq!(std::fs::read_to_string(shell.folder.path().join(path)).unwrap(), content);
            assert_eq!(shell.play(&ActCall::Read { path: path.to_owned() }), (0, content.to_owned()));
        }
    }

    #[test]
    fn an_edit_needs_exactly_one_occurrence() {
        let shell = PlainShell::new();
        shell.play(&write("d/f", "a 'b' a\r\n$x"));
        assert_eq!(shell.play(&edit("d/f", "'b'", "\"é\"\n")), (0, String::new()));
        assert_eq!(shell.play(&ActCall::Read { path: "d/f".to_owned() }).1, "a \"é\"\n a\r\n$x");
        for (path, find, said) in
            [("d/f", "a", "occurs 2 times"), ("d/f", "zz", "occurs 0 times"), ("d/f", "", "is empty"), ("no", "a", "No such file")]
        {
            let (code, text) = shell.play(&edit(path, find, "new"));
            assert!(code == 1 && text.contains(said), "{code} {text}");
        }
        assert_eq!(shell.play(&ActCall::Read { path: "d/f".to_owned() }).1, "a \"é\"\n a\r\n$x");
    }

    #[test]
    fn a_command_leaves_the_folder_and_the_shell_as_they_were() {
        let shell = PlainShell::new();
        shell.play(&write("d/f", "x"));
        assert_eq!(shell.play(&ActCall::Run { command: "cd d && cat f # done".to_owned() }), (0, "x".to_owned()));
        assert_eq!(
            shell.play(&ActCall::Python { code: "print(open('d/f').read())\nraise SystemExit(3)".to_owned() }),
            (3, "x\n".to_owned())
        );
        assert_eq!(shell.play(&ActCall::Run { command: "cat <<'E'\n'\nE".to_owned() }), (0, "'\n".to_owned()));
    }
}
