//! Shell scripts behind the file tools. Every script runs in a subshell that stands in the workspace; it depends neither on the folder,
//! the options, the functions nor the `PATH` that the agent left behind in its shell. Paths are single-quoted words; contents go over
//! standard input, never through a command line.

/// Lines of a listing or of search results; what is more is counted.
const MOST_LINES: u32 = 400;
/// Bytes of one line of search results.
const LONGEST_LINE: u32 = 400;

/// `text` as one word of a shell command.
fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A path as one word of a shell command that is never taken for an option. `~/` is the workspace.
fn path_word(path: &str) -> String {
    let path = match path.strip_prefix("~/") {
        Some(rest) => rest.trim_start_matches('/'),
        None if path == "~" => "",
        None => path,
    };
    if path.starts_with('/') { word(path) } else { word(&format!("./{path}")) }
}

/// `body` in a subshell that stands in `folder`, with the shell's options as they were in the beginning.
fn in_folder(folder: &str, body: &str) -> String {
    format!("( set +efuC +o pipefail; builtin cd -- {} || builtin exit 125\n{body}\n)", word(folder))
}

/// Prints `message` and exits 1 unless `test` holds.
fn require(test: &str, message: &str) -> String {
    format!("builtin test {test} || {{ builtin printf '%s\\n' {}; builtin exit 1; }}\n", word(message))
}

/// Fails with a clear message unless `path` is a regular file.
fn require_file(path: &str) -> String {
    let quoted = path_word(path);
    require(&format!("-e {quoted}"), &format!("error: there is no file {path}"))
        + &require(&format!("! -d {quoted}"), &format!("error: {path} is a folder, not a file"))
        + &require(&format!("-f {quoted}"), &format!("error: {path} is not a regular file"))
}

/// A Python program, which comes over standard input.
pub(super) fn python(workspace: &str) -> String {
    in_folder(workspace, "python3 -")
}

/// The whole of a file.
pub(super) fn read_whole(workspace: &str, path: &str) -> String {
    in_folder(workspace, &format!("{}command -p cat -- {}", require_file(path), path_word(path)))
}

/// The lines of a file from number `offset` on, at most `limit`.
pub(super) fn read_lines(workspace: &str, path: &str, offset: u64, limit: Option<u64>) -> String {
    let program = match limit {
        Some(limit) => {
            let last = offset.saturating_add(limit - 1).min(u64::from(u32::MAX));
            format!("'{offset},{last}p;{last}q'")
        }
        None => format!("'{offset},$p'"),
    };
    in_folder(workspace, &format!("{}command -p sed -n {program} -- {}", require_file(path), path_word(path)))
}

/// Writes standard input to a file, making its folder if need be.
pub(super) fn write(workspace: &str, path: &str) -> String {
    let parent = match path.trim_end_matches('/').rsplit_once('/') {
        Some((parent, _)) if !matches!(parent, "" | "~") => format!("command -p mkdir -p -- {} || builtin exit 1\n", path_word(parent)),
        _ => String::new(),
    };
    // `tee` rather than a redirection: its message does not hold a line number of this script.
    in_folder(workspace, &format!("{parent}command -p tee -- {} > /dev/null", path_word(path)))
}

/// The entries of a folder, three levels deep, sorted by their bytes.
pub(super) fn list(workspace: &str, path: &str) -> String {
    let quoted = path_word(path);
    let require = require(&format!("-d {quoted}"), &format!("error: there is no folder {path}"));
    let find = "-mindepth 1 -maxdepth 3 \\( -type d -printf '%P/\\n' -o -type l -printf '%P -> %l\\n' -o -printf '%P (%s bytes)\\n' \\)";
    let more = format!(
        "command -p awk 'NR <= {MOST_LINES} {{ print }} END {{ if (NR == 0) print \"(empty folder)\"; \
         if (NR > {MOST_LINES}) printf \"[... %d more entries ...]\\n\", NR - {MOST_LINES} }}'"
    );
    // The folder itself may be a link (`-H`); links inside are listed, not followed.
    in_folder(workspace, &format!("{require}command -p find -H {quoted} {find} | LC_ALL=C command -p sort | {more}"))
}

/// The lines that match, sorted by file and line.
pub(super) fn search(workspace: &str, pattern: &str, path: Option<&str>) -> String {
    let pattern = word(pattern);
    let (require, place) = match path {
        Some(path) => {
            let quoted = path_word(path);
            (require(&format!("-e {quoted}"), &format!("error: there is no file or folder {path}")), format!(" -- {quoted}"))
        }
        None => (String::new(), String::new()),
    };
    // A first run over nothing tells a pattern that cannot be read from a file that cannot.
    let valid = format!("command -p grep -E -e {pattern} < /dev/null; builtin test $? -le 1 || builtin exit 2\n");
    let more = format!(
        "command -p awk '{{ sub(/^\\.\\//, \"\") }} NR <= {MOST_LINES} {{ if (length($0) > {LONGEST_LINE}) \
         print substr($0, 1, {LONGEST_LINE}) \"...\"; else print }} END {{ if (NR == 0) print \"(no matches)\"; \
         if (NR > {MOST_LINES}) printf \"[... %d more matches ...]\\n\", NR - {MOST_LINES} }}'"
    );
    let search = format!("command -p grep -rnHsIE -e {pattern}{place} | LC_ALL=C command -p sort -t: -k1,1 -k2,2n | {more}");
    in_folder(workspace, &format!("{require}{valid}{search}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// Runs a script in a plain bash: quoting needs no sandbox to be right or wrong.
    fn run(before: &str, script: &str, stdin: &str) -> (i32, String) {
        let mut child = Command::new("bash")
            .args(["--norc", "-c", &format!("{before}\n{script} 2>&1")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // A script that fails early does not read its input.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn ok(text: &str) -> (i32, String) {
        (0, text.to_owned())
    }

    #[test]
    fn any_path_and_any_content_survive() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        let content = "it's \"x\" $HOME `id` \\n\tEOF\n\n-- no newline at the end é";
        for path in ["a", "-rf", "it's/a b/$(id)\n.txt", "--/x", "*", "#c", "!", "(b)/-c", "d\\e"] {
            assert_eq!(run("", &write(root, path), content), ok(""), "{path:?}");
            assert_eq!(std::fs::read_to_string(folder.path().join(path)).unwrap(), content, "{path:?}");
            assert_eq!(run("", &read_whole(root, path), ""), ok(content), "{path:?}");
        }
        assert_eq!(run("", &write(root, "~/in/home"), "x"), ok(""));
        assert_eq!(std::fs::read_to_string(folder.path().join("in/home")).unwrap(), "x");
    }

    #[test]
    fn what_the_agent_did_to_its_shell_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        let before =
            "set -eufC -o pipefail; cd /; PATH=/nowhere; IFS=x; cat() { echo no; }; cd() { :; }; grep() { echo no; }; test() { false; }";
        assert_eq!(run(before, &write(root, "a"), "one\n"), ok(""));
        assert_eq!(run(before, &write(root, "a"), "two\n"), ok(""), "an existing file is replaced under noclobber");
        assert_eq!(run(before, &read_whole(root, "a"), ""), ok("two\n"));
        assert_eq!(run(before, &search(root, "absent", None), ""), ok("(no matches)\n"));
        assert_eq!(run(before, &list(root, "."), ""), ok("a (4 bytes)\n"));
    }

    #[test]
    fn lines_are_counted_from_one() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        std::fs::write(folder.path().join("f"), "1\n2\n3\n4\n5").unwrap();
        assert_eq!(run("", &read_lines(root, "f", 2, Some(2)), ""), ok("2\n3\n"));
        assert_eq!(run("", &read_lines(root, "f", 4, None), ""), ok("4\n5"));
        assert_eq!(run("", &read_lines(root, "f", 5, Some(u64::MAX)), ""), ok("5"));
        assert_eq!(run("", &read_lines(root, "f", 9, Some(3)), ""), ok(""));
    }

    #[test]
    fn failures_say_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        std::fs::create_dir(folder.path().join("d")).unwrap();
        std::fs::write(folder.path().join("f"), "").unwrap();
        let cases = [
            (read_whole(root, "no"), 1, "error: there is no file no\n"),
            (read_whole(root, "d"), 1, "error: d is a folder, not a file\n"),
            (read_whole(root, "/dev/zero"), 1, "error: /dev/zero is not a regular file\n"),
            (list(root, "f"), 1, "error: there is no folder f\n"),
            (search(root, "(", None), 2, "grep: Unmatched ( or \\(\n"),
            (search(root, "x", Some("no")), 1, "error: there is no file or folder no\n"),
            (write(root, "d"), 1, "tee: ./d: Is a directory\n"),
        ];
        for (script, status, text) in cases {
            assert_eq!(run("LC_ALL=C", &script, "x"), (status, text.to_owned()));
        }
    }

    #[test]
    fn listings_and_matches_are_sorted_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        assert_eq!(run("", &list(root, "."), ""), ok("(empty folder)\n"));
        std::fs::create_dir_all(folder.path().join("b/c/d/e")).unwrap();
        std::fs::write(folder.path().join("B"), "x\n".repeat(11)).unwrap();
        std::fs::write(folder.path().join("a"), format!("{}x\n", "y".repeat(500))).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("l")).unwrap();
        assert_eq!(run("", &list(root, "."), ""), ok("B (22 bytes)\na (502 bytes)\nb/\nb/c/\nb/c/d/\nl -> a\n"));
        assert_eq!(run("", &list(root, "b"), ""), ok("c/\nc/d/\nc/d/e/\n"));
        let expected = (1..=11).map(|line| format!("B:{line}:x\n")).collect::<String>() + &format!("a:1:{}...\n", "y".repeat(396));
        assert_eq!(run("", &search(root, "x$", None), ""), ok(&expected));
        std::fs::write(folder.path().join("many"), "z\n".repeat(450)).unwrap();
        let (status, text) = run("", &search(root, "z", Some("many")), "");
        assert_eq!((status, text.lines().count()), (0, 401));
        assert!(text.ends_with("many:400:z\n[... 50 more matches ...]\n"), "{}", &text[text.len() - 60..]);
    }
}
