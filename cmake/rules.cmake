# The built-in rule files and the table of spellings as text in the program: rewriter/builtin_rules.h
# says how they look in C.
file(GLOB TFR_RULE_FILES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/rewriter/rules/*.py)
list(FILTER TFR_RULE_FILES EXCLUDE REGEX "/__init__\\.py$")
set(canon ${CMAKE_SOURCE_DIR}/rewriter/canon.py)
set(TFR_RULES_C ${CMAKE_BINARY_DIR}/builtin_rules.c)
add_custom_command(OUTPUT ${TFR_RULES_C}
    COMMAND ${CMAKE_COMMAND} -DOUT=${TFR_RULES_C} -DCANON=${canon} "-DRULES=${TFR_RULE_FILES}"
            -P ${CMAKE_SOURCE_DIR}/cmake/embed_rules.cmake
    DEPENDS ${TFR_RULE_FILES} ${canon} ${CMAKE_SOURCE_DIR}/cmake/embed_rules.cmake
    COMMENT "Embedding the rule files" VERBATIM)
