//! The vocabulary in the order of its texts, so that what tokens begin with is looked at once.

use crate::tokenizer::{TokenKind, Tokenizer};

/// Tokens that are text, sorted by their bytes.
#[derive(Clone, Debug)]
pub(super) struct TokenOrder {
    bytes: Vec<u8>,
    tokens: Vec<OrderedToken>,
    /// Where each token of the vocabulary is in `tokens`.
    places: Vec<Option<u32>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OrderedToken {
    pub(super) id: u32,
    start: usize,
    end: usize,
    /// Bytes it shares with the token before it.
    pub(super) shared: usize,
}

impl TokenOrder {
    pub(super) fn new(tokenizer: &Tokenizer) -> Self {
        let n = tokenizer.vocabulary_size();
        let mut texts: Vec<(&[u8], u32)> = (0..n as u32)
            .filter(|id| {
                matches!(
                    tokenizer.token_kind(*id),
                    Some(TokenKind::Normal | TokenKind::Byte | TokenKind::UserDefined)
                )
            })
            .filter_map(|id| Some((tokenizer.token_bytes(id)?, id)))
            .filter(|(text, _)| !text.is_empty())
            .collect();
        texts.sort_unstable();
        let mut order = Self { bytes: Vec::new(), tokens: Vec::new(), places: vec![None; n] };
        let mut before: &[u8] = &[];
        for (text, id) in texts {
            let shared = before.iter().zip(text).take_while(|(a, b)| a == b).count();
            let start = order.bytes.len();
            order.bytes.extend_from_slice(text);
            order.places[id as usize] = Some(order.tokens.len() as u32);
            order.tokens.push(OrderedToken { id, start, end: order.bytes.len(), shared });
            before = text;
        }
        order
    }

    pub(super) fn vocabulary(&self) -> usize {
        self.places.len()
    }

    pub(super) fn tokens(&self) -> &[OrderedToken] {
        &self.tokens
    }

    pub(super) fn text(&self, token: &OrderedToken) -> &[u8] {
        &self.bytes[token.start..token.end]
    }

    /// The bytes of a token that is text.
    pub(super) fn text_of(&self, id: u32) -> Option<&[u8]> {
        let place = (*self.places.get(id as usize)?)?;
        Some(self.text(&self.tokens[place as usize]))
    }
}
