//! Instructions of SPIR-V, appended to a list of words.

/// Instructions, by their numbers in the specification.
#[allow(missing_docs)]
pub(super) mod op {
    pub const NAME: u32 = 5;
    pub const EXT_INST_IMPORT: u32 = 11;
    pub const EXT_INST: u32 = 12;
    pub const MEMORY_MODEL: u32 = 14;
    pub const ENTRY_POINT: u32 = 15;
    pub const EXECUTION_MODE: u32 = 16;
    pub const CAPABILITY: u32 = 17;
    pub const TYPE_BOOL: u32 = 20;
    pub const TYPE_INT: u32 = 21;
    pub const TYPE_FLOAT: u32 = 22;
    pub const TYPE_VECTOR: u32 = 23;
    pub const TYPE_ARRAY: u32 = 28;
    pub const TYPE_RUNTIME_ARRAY: u32 = 29;
    pub const TYPE_STRUCT: u32 = 30;
    pub const TYPE_POINTER: u32 = 32;
    pub const TYPE_FUNCTION: u32 = 33;
    pub const CONSTANT: u32 = 43;
    pub const CONSTANT_COMPOSITE: u32 = 44;
    pub const SPEC_CONSTANT: u32 = 50;
    pub const SPEC_CONSTANT_COMPOSITE: u32 = 51;
    pub const FUNCTION: u32 = 54;
    pub const FUNCTION_PARAMETER: u32 = 55;
    pub const FUNCTION_END: u32 = 56;
    pub const FUNCTION_CALL: u32 = 57;
    pub const VARIABLE: u32 = 59;
    pub const LOAD: u32 = 61;
    pub const STORE: u32 = 62;
    pub const ACCESS_CHAIN: u32 = 65;
    pub const DECORATE: u32 = 71;
    pub const COMPOSITE_CONSTRUCT: u32 = 80;
    pub const COMPOSITE_EXTRACT: u32 = 81;
    pub const COPY_OBJECT: u32 = 83;
    pub const U_CONVERT: u32 = 113;
    pub const BITCAST: u32 = 124;
    pub const I_ADD: u32 = 128;
    pub const F_ADD: u32 = 129;
    pub const SELECT: u32 = 169;
    pub const I_EQUAL: u32 = 170;
    pub const I_NOT_EQUAL: u32 = 171;
    pub const U_LESS_THAN: u32 = 176;
    pub const SHIFT_RIGHT: u32 = 194;
    pub const SHIFT_LEFT: u32 = 196;
    pub const BITWISE_OR: u32 = 197;
    pub const BITWISE_XOR: u32 = 198;
    pub const BITWISE_AND: u32 = 199;
    pub const CONTROL_BARRIER: u32 = 224;
    pub const MEMORY_BARRIER: u32 = 225;
    pub const PHI: u32 = 245;
    pub const LOOP_MERGE: u32 = 246;
    pub const SELECTION_MERGE: u32 = 247;
    pub const LABEL: u32 = 248;
    pub const BRANCH: u32 = 249;
    pub const BRANCH_CONDITIONAL: u32 = 250;
    pub const RETURN_VALUE: u32 = 254;
    pub const EXECUTION_MODE_ID: u32 = 331;
}

/// Words of instructions, and the next id that no instruction has.
#[derive(Default)]
pub(super) struct Code {
    pub words: Vec<u32>,
}

impl Code {
    /// Appends an instruction.
    pub fn put(&mut self, code: u32, operands: &[u32]) {
        self.words.push((operands.len() as u32 + 1) << 16 | code);
        self.words.extend(operands);
    }
}

/// Ids that no instruction has yet.
pub(super) struct Ids {
    pub next: u32,
}

impl Ids {
    pub fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}

/// The instructions of a module or a part of one: number and operands; none from where one is cut off.
pub(super) fn instructions(mut rest: &[u32]) -> impl Iterator<Item = Option<(u32, &[u32])>> {
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let len = (first >> 16) as usize;
        let Some(operands) = rest.get(1..len) else {
            rest = &[];
            return Some(None);
        };
        rest = &rest[len..];
        Some(Some((first & 0xffff, operands)))
    })
}
