//! Many byte strings in one allocation.

/// Byte strings numbered from 0, in one allocation.
#[derive(Clone, Debug, Default)]
pub struct ByteTable {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteTable {
    /// Appends a string; its number is the length before.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The string of a number, if there is one.
    pub fn get(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        Some(&self.bytes[start..end])
    }
}
