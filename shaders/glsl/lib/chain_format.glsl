// Four products of weights of a format with activations.
#ifdef UNSIGNED_CODES
int DOT4(uint q, int a) { return dotPacked4x8EXT(a, q); }
#else
int DOT4(uint q, int a) { return dotPacked4x8EXT(int(q), a); }
#endif
