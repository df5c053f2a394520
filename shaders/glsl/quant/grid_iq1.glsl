// The grid of IQ1_S and IQ1_M: eight values 0, 1, 2 to a word, the first four in the low nibbles of its bytes.
// Eight times (value - 1), less or more one: the shift by an eighth is a whole number then. Bytes are kept from borrowing by
// a bit that no value reaches.
uint shifted(uint values, bool down) { return (8 * (values & 0x0f0f0f0fu) + (down ? 0x77777777u : 0x79797979u)) ^ 0x80808080u; }
