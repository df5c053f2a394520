// Makes room for a second format: what quant/contract.glsl and lib/dot.glsl define from here on has other names.
#undef LEVELS
#undef TABLE_AT
#undef TABLE_WORDS
#undef WEIGHT_INIT
#undef BLOCK_LEN
#undef BLOCK_BYTES
#undef SOA_BYTES
#undef CHUNK
#undef PIECES
#undef HAS_OFFSET
#undef UNSIGNED_CODES
#undef DOT4
#define DOT4 dot4_2
#undef OFFSET
#define OFFSET offset_2
#undef DOTS
#define DOTS dots_2
#undef UNIT_WORDS
#define Raw Raw_2
#define Decoded Decoded_2
#define GROUPS GROUPS_2
#define line_bytes line_bytes_2
#define line_of line_of_2
#define line_after line_after_2
#define field_at field_at_2
#define get_u32 get_u32_2
#define get_u16 get_u16_2
#define get_u8 get_u8_2
#define get_x2 get_x2_2
#define get_x4 get_x4_2
#define get_half get_half_2
#define get_2x4 get_2x4_2
#define part_at part_at_2
#define weight_load weight_load_2
#define weight_codes weight_codes_2
#define weight_decode weight_decode_2
#define chunk_col chunk_col_2
#define code_values code_values_2
#define group_values group_values_2
