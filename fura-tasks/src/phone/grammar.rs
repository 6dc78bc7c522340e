//! The written actions that a screen allows, as a grammar for constrained decoding.

use super::action::TEXT_LIMIT;
use super::app::App;
use super::device::View;
use super::screen::Effect;
use super::task::End;

/// Characters have at most this many bytes.
const WIDEST: usize = 4;

/// Rules of texts: JSON strings in the one form that actions have. Bytes are what is limited, characters are what a
/// grammar counts, so a text is either ASCII or short.
fn text_rules() -> String {
    [
        format!("text ::= \"\\\"\" (ascii{{0,{TEXT_LIMIT}}} | any{{0,{}}}) \"\\\"\"\n", TEXT_LIMIT / WIDEST),
        "ascii ::= [ !#-\\[\\]-~] | escape\n".to_owned(),
        "any ::= [^\"\\\\\\x00-\\x1f] | escape\n".to_owned(),
        "escape ::= \"\\\\\" [\"\\\\bfnrt]\n".to_owned(),
    ]
    .concat()
}

/// The grammar of a screen: an action after a space.
pub(super) fn grammar(view: &View, is_home: bool, end: End) -> String {
    let (mut taps, mut fields) = (Vec::new(), Vec::new());
    for (n, element) in view.elements.iter().enumerate() {
        match element.effect {
            _ if element.is_field() => fields.push(format!("\"{n}\"")),
            Effect::Nothing => {}
            _ => taps.push(format!("\"{n}\"")),
        }
    }
    let has_text = !fields.is_empty() || end == End::Answer;
    let (below, above) = view.scrolls();
    let verbs = [
        (!taps.is_empty()).then(|| format!("\"tap \" ({})", taps.join(" | "))),
        (!fields.is_empty()).then(|| format!("\"type \" ({}) \" \" text", fields.join(" | "))),
        below.then(|| "\"scroll down\"".to_owned()),
        above.then(|| "\"scroll up\"".to_owned()),
        Some("\"open \" app".to_owned()),
        (!is_home).then(|| "\"back\" | \"home\"".to_owned()),
        (end == End::Answer).then(|| "\"answer \" text".to_owned()),
        (end == End::Done).then(|| "\"done\"".to_owned()),
    ];
    let verbs: Vec<String> = verbs.into_iter().flatten().collect();
    let apps = App::ALL.map(|app| format!("\"{app}\""));
    let texts = if has_text { text_rules() } else { String::new() };
    format!("root ::= \" \" ({})\napp ::= {}\n{texts}", verbs.join(" | "), apps.join(" | "))
}
