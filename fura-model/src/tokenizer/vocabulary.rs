//! What each token is: its kind and its bytes.

/// The kind of a token, from `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenKind {
    /// Ordinary text.
    Normal,
    /// Stands for what cannot be encoded.
    Unknown,
    /// Structure, such as the start of a turn; plain text never encodes to it.
    Control,
    /// Text that was added to the vocabulary after training the merges.
    UserDefined,
    /// A placeholder.
    Unused,
    /// A single byte.
    Byte,
}

impl TokenKind {
    /// The kind with number `code` in the file; 0, "undefined", counts as unused.
    pub(super) fn from_code(code: i32) -> Option<Self> {
        Some(match code {
            0 | 5 => Self::Unused,
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            6 => Self::Byte,
            _ => return None,
        })
    }
}

/// The bytes and kinds of all tokens, by id.
#[derive(Debug, Clone, Default)]
pub(super) struct Vocabulary {
    bytes: Vec<u8>,
    /// Where each token's bytes end; they start where the token before ends.
    ends: Vec<usize>,
    kinds: Vec<TokenKind>,
}

impl Vocabulary {
    pub(super) fn push(&mut self, bytes: &[u8], kind: TokenKind) {
        self.bytes.extend(bytes);
        self.ends.push(self.bytes.len());
        self.kinds.push(kind);
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let i = id as usize;
        let end = *self.ends.get(i)?;
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        Some(&self.bytes[start..end])
    }

    /// Ids, kinds and bytes of all tokens.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, TokenKind, &[u8])> {
        (0..).zip(&self.kinds).filter_map(|(id, &kind)| Some((id, kind, self.bytes(id)?)))
    }
}
