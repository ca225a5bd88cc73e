# cmake -DOUT=FILE.c -DCANON=canon.py "-DRULES=a.py;b.py" -P embed_rules.cmake: writes the texts as C.
# Each is one string literal; '?' is escaped because C has trigraphs. What follows the line
# `# Examples` of a rule file is for tests alone and stays out of the program.
function(embed symbol file)
    file(READ "${file}" text)
    string(REGEX REPLACE "\n# Examples\n.*" "\n" text "${text}")
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "?" "\\?" text "${text}")
    string(REPLACE "\r" "\\r" text "${text}")
    string(REPLACE "\t" "\\t" text "${text}")
    string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
    file(APPEND "${OUT}" "static const char ${symbol}[] =\n    \"${text}\";\n\n")
endfunction()

function(row out symbol file)
    get_filename_component(name "${file}" NAME)
    set(${out} "{\"${name}\", ${symbol}, sizeof(${symbol}) - 1}" PARENT_SCOPE)
endfunction()

file(WRITE "${OUT}" "// Written by cmake/embed_rules.cmake.\n"
    "#include \"rewriter/builtin_rules.h\"\n\n")
embed(canon "${CANON}")
row(canon canon "${CANON}")
set(count 0)
set(rows "")
foreach(file IN LISTS RULES)
    embed(rule_${count} "${file}")
    row(rule rule_${count} "${file}")
    string(APPEND rows "    ${rule},\n")
    math(EXPR count "${count} + 1")
endforeach()
file(APPEND "${OUT}" "const tfr_builtin_rule tfr_builtin_canon = ${canon};\n"
    "const tfr_builtin_rule tfr_builtin_rules[] = {\n${rows}    {0, 0, 0},\n};\n"
    "const uint32_t tfr_builtin_rule_count = ${count};\n")
