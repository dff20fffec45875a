//! Pictures of a whole page at several widths and in light and dark, for people to look at. `.ci/gallery` names a page and a folder.

use super::browser::Browser;
use super::{keep_pictures, set_width};
use serde_json::json;
use std::path::Path;

#[test]
#[cfg_attr(no_browser, ignore = "no chromedriver: see CONTRIBUTING.md")]
fn a_page_is_kept_at_every_width_and_in_every_look() {
    let Some(page) = std::env::var_os("GALLERY") else {
        return;
    };
    let page = Path::new(&page);
    let browser = Browser::start();
    let feature = |name: &str, value: &str| {
        let features = json!({"features": [{"name": name, "value": value}]});
        browser.devtools("Emulation.setEmulatedMedia", &features);
    };
    for (name, width, is_phone, look) in [
        ("1400", 1400, false, "light"),
        ("1400-dark", 1400, false, "dark"),
        ("390", 390, true, "light"),
        ("390-dark", 390, true, "dark"),
    ] {
        feature("prefers-color-scheme", look);
        set_width(&browser, width, is_phone);
        browser.open(page);
        browser.wait("return document.readyState === 'complete'");
        // A scroll bar may make the page narrower.
        let wide = browser.run("return document.documentElement.scrollWidth");
        assert!(wide.as_u64().is_some_and(|wide| wide <= width.into()), "{name}: {wide}");
        keep_pictures(&browser, name);
    }
    set_width(&browser, 760, false);
    browser.open(page);
    browser.devtools("Emulation.setEmulatedMedia", &json!({"media": "print"}));
    browser.run("dispatchEvent(new Event('beforeprint'))");
    keep_pictures(&browser, "print");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
