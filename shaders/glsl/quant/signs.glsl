// Changes the sign of the bytes (none of them 0) whose mask is all ones.
uint signed_by(uint x, uint mask) { return (x ^ mask) + (mask & 0x01010101u); }
uvec2 sign_masks(uint pattern) { return table[SIGNS_AT / 2 + pattern]; }
