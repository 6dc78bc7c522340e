use super::walk::Walk;
use super::*;
use crate::gguf::{Gguf, GgufWriter};
use crate::tokenizer::{Specials, Tokenizer};

/// All printable characters, the bytes of 'é' and some longer tokens, of which several begin alike.
fn tokenizer() -> Tokenizer {
    let mut tokens: Vec<String> = (b'!'..=b'~').map(|b| char::from(b).to_string()).collect();
    // Space, newline and tab in the alphabet of byte-level BPE, then the two bytes of é (0xc3 0xa9) and its token.
    for t in [
        "Ġ", "Ċ", "ĉ", "Ã", "©", "Ã©", "ab", "abc", "abcd", "true", "tr", "\":", "{\"", "}}", "10", "00",
        "no",
    ] {
        tokens.push(t.to_owned());
    }
    tokens.push("<end>".to_owned());
    let mut kinds = vec![1; tokens.len() - 1];
    kinds.push(3);
    let mut writer = GgufWriter::new();
    writer
        .kv("tokenizer.ggml.model", "gpt2")
        .kv("tokenizer.ggml.pre", "gpt-2")
        .strings("tokenizer.ggml.tokens", &tokens)
        .i32s("tokenizer.ggml.token_type", &kinds)
        .strings::<&str>("tokenizer.ggml.merges", &[])
        .kv("tokenizer.ggml.eos_token_id", tokens.len() as u32 - 1);
    let bytes = writer.finish().unwrap();
    Tokenizer::from_gguf(&Gguf::parse(&bytes, "constraint.gguf".as_ref()).unwrap()).unwrap()
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % n as u64) as usize
    }
}

/// Whether the whole text is legal, each character a token of its own.
fn accepts(t: &Tokenizer, constraint: &Constraint, text: &str) -> bool {
    let mut state = constraint.start();
    t.encode(text, Specials::Ignore).unwrap().into_iter().all(|token| state.advance(token))
        && state.is_complete()
}

#[test]
fn grammars_accept_what_the_equivalent_regular_expression_does() {
    let t = tokenizer();
    for (grammar, regex) in [
        ("root ::= \"a\"* \"b\" | \"c\"+", "a*b|c+"),
        ("root ::= [a-b]{2,3} \"c\"?", "[ab]{2,3}c?"),
        ("root ::= ([^b] \"b\")* # a comment\n | \"\"", "([^b]b)*"),
        ("root ::= (\"a\"* \"b\"?)*", "(a*b?)*"),
        ("root ::= x{0} y{2}\nx ::= \"a\"\ny ::= . | x x", "(.|aa){2}"),
        ("root ::= (a | ab)\n(\"c\" | \"\")\na ::= \"a\" ab ::= \"ab\"", "(a|ab)(c|)"),
        ("root ::= word (\"b\" word){0,2}\nword ::= [\\x61c]+", "[ac]+(b[ac]+){0,2}"),
        ("root ::= [\\u00e9a]{1,}", "[éa]{1,}"),
        ("root ::= [^a]+", "[^a]+"),
    ] {
        let constraint = Constraint::grammar(&t, grammar).unwrap();
        let expression = fancy_regex::Regex::new(&format!("^(?:{regex})$")).unwrap();
        let mut accepted = 0;
        for n in 0..5u32 {
            for code in 0..4u32.pow(n) {
                let text: String =
                    (0..n).map(|i| ['a', 'b', 'c', 'é'][(code >> (2 * i)) as usize & 3]).collect();
                let got = accepts(&t, &constraint, &text);
                assert_eq!(got, expression.is_match(&text).unwrap(), "{grammar:?} on {text:?}");
                accepted += u32::from(got);
            }
        }
        assert!(accepted > 0, "{grammar:?} accepts nothing");
    }
}

/// What is allowed, found the slow way.
fn allowed_one_by_one(t: &Tokenizer, state: &mut ConstraintState) -> Vec<u32> {
    (0..t.vocabulary_size() as u32).filter(|id| state.allows(*id)).collect()
}

const JSON: &str = r#"
root    ::= value
value   ::= object | array | string | number | "true" | "false" | "null"
object  ::= "{" (string ":" value ("," string ":" value)*)? "}"
array   ::= "[" (value ("," value)*)? "]"
string  ::= "\"" ([^"\\\x00-\x1f] | "\\" ["\\/bfnrt])* "\""
number  ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,2})?
"#;

#[test]
fn whatever_a_json_grammar_allows_is_json_and_all_of_it_is_allowed() {
    let t = tokenizer();
    let constraint = Constraint::grammar(&t, JSON).unwrap();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut whole, mut state) = (0, constraint.start());
    for _ in 0..200 {
        state.restart();
        let mut tokens = Vec::new();
        for _ in 0..60 {
            if state.is_complete() && (!state.can_continue() || random.below(3) == 0) {
                break;
            }
            let allowed = state.allowed().to_vec();
            if tokens.len() % 8 == 0 {
                assert_eq!(allowed, allowed_one_by_one(&t, &mut state));
            }
            // Closing brackets are picked more often, so that texts come to an end.
            let closing =
                allowed.iter().copied().find(|id| matches!(t.token_bytes(*id), Some(b"]" | b"}" | b"\"")));
            let token = match closing {
                Some(id) if random.below(3) == 0 => id,
                _ => allowed[random.below(allowed.len())],
            };
            assert!(state.advance(token));
            tokens.push(token);
        }
        if state.is_complete() {
            let text = String::from_utf8(t.decode(&tokens)).unwrap();
            serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
            whole += 1;
        }
    }
    assert!(whole > 50, "{whole} texts were complete");
    for text in [r#"{"a":[1,-0.5e+10,{"b":true}],"c":""}"#, r#""caf\\é\"""#, "[[[[]]]]", "null"] {
        assert!(accepts(&t, &constraint, text), "{text}");
    }
    for text in ["{", r#"{"a"}"#, "01", "[1,]", "tru", "\"\n\"", "nulll", ""] {
        assert!(!accepts(&t, &constraint, text), "{text}");
    }
}

#[test]
fn every_tokenization_of_an_answer_is_legal_and_nothing_else() {
    let t = tokenizer();
    let answers = ["abcd", "abc", "abx", "é!", "no\nno"];
    let constraint = Constraint::answers(&t, &answers).unwrap();
    // All token sequences that the constraint allows, to the end.
    let mut found = std::collections::BTreeMap::<String, usize>::new();
    let mut open = vec![(constraint.start(), Vec::new())];
    while let Some((mut state, tokens)) = open.pop() {
        if state.is_complete() {
            *found.entry(String::from_utf8(t.decode(&tokens)).unwrap()).or_default() += 1;
        }
        let allowed = state.allowed().to_vec();
        assert_eq!(allowed, allowed_one_by_one(&t, &mut state));
        assert_eq!(allowed.is_empty(), !state.can_continue());
        for token in allowed {
            let mut next = state.clone();
            assert!(next.advance(token));
            open.push((next, [&tokens[..], &[token]].concat()));
        }
    }
    // abc: a b c, ab c, abc; abcd: those with d, and abcd; é: two bytes or one token; no: n o or no, twice.
    let counts = [("abc", 3), ("abcd", 4), ("abx", 2), ("no\nno", 4), ("é!", 2)];
    assert_eq!(found, counts.iter().map(|(text, n)| ((*text).to_owned(), *n)).collect());
}

#[test]
fn recursion_is_bounded_and_needs_no_stack_on_the_right() {
    let t = tokenizer();
    let right = Constraint::grammar(&t, "root ::= \"a\" root | \"b\"").unwrap();
    assert!(accepts(&t, &right, &format!("{}b", "a".repeat(5000))));
    let nested = Constraint::grammar(&t, "root ::= \"(\" root \")\" | \"\"").unwrap();
    for (n, legal) in [(0, true), (1, true), (128, true), (129, false)] {
        assert_eq!(accepts(&t, &nested, &format!("{}{}", "(".repeat(n), ")".repeat(n))), legal, "{n}");
    }
    // Many ways to read the same text stay one.
    let many = Constraint::grammar(&t, "root ::= (x x)* x ::= (\"a\" | \"a\"? \"a\")* \"b\"?").unwrap();
    assert!(accepts(&t, &many, &"a".repeat(300)));
}

/// What a limit leaves out is told, and only that.
#[test]
fn a_limit_of_grammars_that_is_met_is_told() {
    let t = tokenizer();
    let nested = Constraint::grammar(&t, "root ::= \"(\" root \")\" | \"\"").unwrap();
    let open = t.encode("(", Specials::Ignore).unwrap()[0];
    let mut state = nested.start();
    for depth in 0..=128 {
        assert!(!state.is_cut(), "{depth}");
        assert_eq!(state.advance(open), depth < 128, "{depth}");
    }
    assert!(state.is_cut());
    state.restart();
    assert!(!state.is_cut() && state.allowed().contains(&open) && !state.is_cut());
    // Every alternative is a place of its own, and so is every way to it.
    let alternatives = |n: usize| {
        let list: Vec<String> = (0..n).map(|i| format!("\"{i}\"")).collect();
        Constraint::grammar(&t, &format!("root ::= {}", list.join(" | ")))
    };
    assert_eq!(alternatives(400).unwrap().start().allowed().len(), 11);
    let e = alternatives(600).unwrap_err();
    assert_eq!(e, ConstraintError::Alternatives { rule: "root", limit: 1024 });
}

/// Found by fuzzing: a thousand places after every byte, of every beginning of every token, took minutes.
#[test]
fn the_work_for_one_set_of_tokens_is_bounded() {
    let t = tokenizer();
    let many = Constraint::grammar(&t, "root ::= [ab]{0,480}").unwrap();
    let mut walk = Walk::new(&many.automaton);
    let mut bytes = 0;
    while walk.step(&many.automaton, b'a') && !walk.is_cut() {
        walk.back();
        bytes += 1;
        assert!(bytes < 1 << 25, "without a bound");
    }
    assert!(walk.is_cut() && bytes > 1 << 14, "{bytes} bytes");
    let mut walk = Walk::new(&many.automaton);
    for _ in 0..bytes + 100 {
        walk.rest();
        assert!(walk.step(&many.automaton, b'a'));
        walk.back();
    }
    assert!(!walk.is_cut());
}

#[test]
fn bad_grammars_and_answers_are_refused_with_the_line() {
    let t = tokenizer();
    let error = |grammar: &str| Constraint::grammar(&t, grammar).unwrap_err().to_string();
    for (grammar, what) in [
        ("", "no rule 'root'"),
        ("x ::= \"a\"", "no rule 'root'"),
        ("root ::= y", "line 1: there is no rule 'y'"),
        ("root ::= \"a\"\n\nroot ::= \"b\"", "line 3: rule 'root' is there twice"),
        ("root ::= \"a", "not closed"),
        ("root ::= [a", "not closed"),
        ("root ::= (\"a\"", "parenthesis"),
        ("root ::= \"a\")", "unexpected ')'"),
        ("root ::= [z-a]", "wrong way round"),
        ("root ::= [^\\x00-\\U0010ffff]", "without characters"),
        ("root ::= \"a\"{3,2}", "larger count"),
        ("root ::= \"a\"{99999}", "count up to"),
        ("root ::= \"a\"**", "in a row"),
        ("root ::= \"\\q\"", "escape"),
        ("root ::= \"\\uD800\"", "hexadecimal"),
        ("root = x", "::="),
        ("root ::= root \"a\" | \"b\"", "'root' is left-recursive"),
        ("root ::= a\na ::= e b e ::= \"\"* b ::= \"x\"? a \"y\"", "left-recursive"),
        ("root ::= ((\"a\"{1000}){1000}){1000}", "states"),
    ] {
        assert!(error(grammar).contains(what), "{grammar:?}: {}", error(grammar));
    }
    let open = "(".repeat(100_000);
    assert!(error(&format!("root ::= {open}")).contains("parentheses"));
    let many: String = (0..2000).map(|i| format!("r{i} ::= \"a\"\n")).collect();
    assert!(error(&format!("root ::= \"a\"\n{many}")).contains("rules"));
    assert_eq!(
        Constraint::answers::<&str>(&t, &[]).unwrap_err(),
        ConstraintError::Answers { problem: "there is none" }
    );
    assert!(Constraint::answers(&t, &["a", ""]).is_err());
    assert!(matches!(
        Constraint::answers(&t, &["a".repeat(1 << 18)]).unwrap_err(),
        ConstraintError::TooLarge { .. }
    ));
}

#[test]
fn control_tokens_are_never_text() {
    let t = tokenizer();
    let mut state = Constraint::grammar(&t, "root ::= .*").unwrap().start();
    let end = t.eos().unwrap();
    assert!(!state.allows(end) && !state.allowed().contains(&end));
    assert!(!state.advance(end) && !state.advance(u32::MAX));
    // A lone continuation byte begins no character.
    let half = t.encode("é", Specials::Ignore).unwrap();
    assert!(half.len() == 2 && state.allows(half[0]) && !state.allows(half[1]));
    assert_eq!(state.allowed().len(), t.vocabulary_size() - 2);
}
