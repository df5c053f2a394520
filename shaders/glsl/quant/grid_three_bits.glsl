// Codebooks of four values of three bits.
uint three_bits(uint code) { return (code & 7) | ((code & 56) << 5) | ((code & 448) << 10) | ((code & 3584) << 15); }
#define GRID_OF_WORDS
