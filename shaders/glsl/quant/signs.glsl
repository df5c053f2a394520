// Changes the sign of the bytes (none of them 0) of four weights whose bit of `minus` is set.
uint signed_by(uint x, uint minus) {
    const uint ones = spread_bits(minus);
    return (x ^ (ones * 255)) + ones;
}
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
