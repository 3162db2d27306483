//! Secrets are shown nowhere: not by `Debug`, not in listings, not in problems.

use linn_config::{ProviderKey, SecretString};
use serde_json::json;

use crate::{CONFIG, SETTINGS, USER, load, sources};

const HIDDEN: &str = "hidden-7f3a";

#[test]
fn no_text_of_a_configuration_has_a_secret_in_it() {
    let config_json = format!(
        r#"{{"api_key": "{HIDDEN}", "provider_keys": {{"a": "{HIDDEN}"}}, "search_keys": {{"exa": "{HIDDEN}", "tavily": ["{HIDDEN}"]}},
            "providers": [{{"name": "a", "base_url": "u", "api_key": "{HIDDEN}", "headers": {{"Authorization": "{HIDDEN}"}}, "note": "{HIDDEN}"}},
                          {{"name": "b", "apiKey": "{HIDDEN}"}}, {{"name": "c", "base_url": "u", "headers": ["{HIDDEN}"]}}]}}"#
    );
    let settings = format!(r#"{{"provider_keys": "{HIDDEN}", "api_key": {{"x": "{HIDDEN}"}}}}"#);
    let user = format!(
        "model = '${{env:KEY}}'\n[search]\nexa_key = '${{env:KEY}}'\n[shell]\ntimeout_secs = '${{env:KEY}}'\n[[plugins]]\nid = 'git'\n\
         config = {{token = '{HIDDEN}', url = 'http://${{env:KEY}}', nested = [{{password = '{HIDDEN}'}}]}}\n\
         [[plugins]]\nid = 'web'\nconfig = '{HIDDEN}'\n[[plugins]]\nid = 'web'\ndisabled = '${{env:KEY}}'\n\
         [[providers]]\nname = 'z'\nbase_url = 'u'\napi_key = '${{env:KEY}}'"
    );
    let files = [(CONFIG, config_json.as_str()), (SETTINGS, settings.as_str()), (USER, user.as_str())];
    let variables = [("KEY", HIDDEN), ("LINN_API_KEY", HIDDEN), ("TAVILY_API_KEY", HIDDEN)];
    let arguments = format!("--set provider_keys={{a='{HIDDEN}'}} --set api_key={HIDDEN} --set api_key=");
    let mut config = load(&files, &variables, &arguments);
    config.set_provider_key("a", SecretString::from(HIDDEN));
    config.set("search.exa_key", &json!(HIDDEN), "set_search_key").unwrap();
    let refused = config.set("api_key", &json!([HIDDEN]), "x").unwrap_err();

    let mut texts = vec![format!("{config:?}"), format!("{:?}", config.tree()), format!("{refused} {refused:?}")];
    texts.push(format!("{:?}", config.get(&linn_config::keys::PROVIDERS)));
    texts.push(format!("{:?}", config.sources()));
    texts.extend(config.problems().iter().map(|it| format!("{it} {it:?}")));
    texts.extend(config.listing().iter().map(|it| format!("{it} {it:?}")));
    texts.extend(
        linn_config::keys::all()
            .iter()
            .map(|it| config.get_json(it.name).unwrap().to_string())
            .filter(|it| it != &json!(HIDDEN).to_string()),
    );
    let key = config.provider_key(&config.active_provider());
    assert!(matches!(key, ProviderKey::Key(_)));
    texts.push(format!("{key:?}"));
    for text in &texts {
        assert!(!text.contains(HIDDEN), "{text}");
    }
    assert!(config.problems().len() >= 8, "{:?}", config.problems());
}

#[test]
fn syntax_errors_quote_no_line() {
    for (path, text) in [
        (CONFIG, format!("{{\"api_key\": \"{HIDDEN}")),
        (USER, format!("api_key = '{HIDDEN}\nx")),
        (USER, format!("api_key = {HIDDEN}")),
    ] {
        let config = load(&[(path, &text)], &[], "");
        assert_eq!(config.problems().len(), 1);
        assert!(!format!("{:?}", config.problems()).contains(HIDDEN), "{:?}", config.problems());
    }
}

#[test]
fn sources_show_names_only() {
    let text = format!("{:?}", sources(&[], &[("KEY", HIDDEN)], &format!("--set api_key={HIDDEN}")));
    assert!(text.contains("KEY") && !text.contains(HIDDEN), "{text}");
}
