//! What the model reads of a page.

use linn_services::web::WebPage;

/// How wide lines of text made from HTML are.
const WIDTH: usize = 120;

/// Kinds of content that are shown as they are.
const TEXTS: &[&str] = &["json", "xml", "javascript", "yaml", "toml", "csv", "x-www-form-urlencoded"];

/// The text of a page: of HTML what a reader sees, unless it is wanted raw.
pub(crate) fn text_of(page: &WebPage, is_raw: bool) -> String {
    let kind = page.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !is_text(&kind, &page.body) {
        return format!(
            "[{} bytes of {}, which is no text]",
            page.body.len(),
            if kind.is_empty() { "something" } else { &kind }
        );
    }
    let mut text = match !is_raw && is_html(&kind, &page.body) {
        true => html2text::from_read(&page.body[..], WIDTH)
            .unwrap_or_else(|_| String::from_utf8_lossy(&page.body).into_owned()),
        false => String::from_utf8_lossy(&page.body).into_owned(),
    };
    if page.is_cut {
        text.push_str(&format!("\n...[only the first {} bytes were read]...", page.body.len()));
    }
    text
}

fn is_html(kind: &str, body: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&body[..body.len().min(256)]).trim_start().to_ascii_lowercase();
    let looks_so = start.starts_with("<!doctype html") || start.starts_with("<html");
    matches!(kind, "text/html" | "application/xhtml+xml") || kind.is_empty() && looks_so
}

fn is_text(kind: &str, body: &[u8]) -> bool {
    if kind.starts_with("text/") || TEXTS.iter().any(|it| kind.ends_with(it)) || kind == "application/xhtml+xml" {
        return true;
    }
    // A kind that says nothing is judged by what is there.
    matches!(kind, "" | "application/octet-stream") && !body.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(content_type: &str, body: &[u8]) -> WebPage {
        WebPage { content_type: content_type.to_owned(), body: body.to_vec(), status: 200, ..WebPage::default() }
    }

    #[test]
    fn of_html_what_a_reader_sees_is_told() {
        let html = b"<html><head><style>p{}</style><script>x()</script></head><body><h1>Title</h1><p>One &amp; two</p></body></html>";
        for kind in ["text/html; charset=utf-8", "TEXT/HTML", ""] {
            let text = text_of(&page(kind, html), false);
            assert!(text.contains("Title") && text.contains("One & two"), "{text}");
            assert!(!text.contains("x()") && !text.contains("p{}") && !text.contains('<'), "{text}");
        }
        assert_eq!(text_of(&page("text/html", html), true).as_bytes(), html);
    }

    #[test]
    fn html_in_pieces_is_read_as_far_as_it_goes() {
        for html in ["<p>open", "<div><p>a<b", "&", "<!--", "\u{fffd}<a href='"] {
            text_of(&page("text/html", html.as_bytes()), false);
        }
    }

    #[test]
    fn other_texts_are_told_as_they_are_and_what_is_no_text_is_not() {
        assert_eq!(text_of(&page("application/json", b"{\"a\": 1}"), false), "{\"a\": 1}");
        assert_eq!(text_of(&page("application/problem+json", b"{}"), false), "{}");
        assert_eq!(text_of(&page("", b"plain"), false), "plain");
        assert_eq!(text_of(&page("image/png", b"\x89PNG"), false), "[4 bytes of image/png, which is no text]");
        assert_eq!(text_of(&page("", b"a\0b"), true), "[3 bytes of something, which is no text]");
        let cut = WebPage { is_cut: true, ..page("text/plain", b"abc") };
        assert_eq!(text_of(&cut, false), "abc\n...[only the first 3 bytes were read]...");
    }
}
