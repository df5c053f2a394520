// Changes the sign of the bytes (none of them 0) of four weights where `ones` has a 1.
uint negated(uint x, uint ones) { return (x ^ (ones * 255)) + ones; }
// Likewise of those whose bit of `minus` is set.
uint signed_by(uint x, uint minus) { return negated(x, spread_bits(minus)); }
// Likewise, by what soa have of the signs of 32 weights, of group `i`.
uint signed_in(uint x, uint signs, uint i) { return negated(x, (signs >> i) & 0x01010101u); }
// Bit 7 of bytes, such that the number of ones in each is even.
uint evened(uint b) {
    uint odd = b ^ (b >> 4);
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return b | ((odd & 0x01010101u) << 7);
}
// Four fields of seven bits as bytes, each with the eighth sign that follows from the others.
uint eight_signs(uint w) {
    return evened((w & 0x7f) | ((w << 1) & 0x7f00) | ((w << 2) & 0x7f0000) | ((w << 3) & 0x7f000000));
}
