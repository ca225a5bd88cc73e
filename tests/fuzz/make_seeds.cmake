# cmake -DSOURCE=REPO -DOUT=FOLDER -P make_seeds.cmake: the seed corpus, each file under its hash.
file(GLOB_RECURSE inputs ${SOURCE}/tests/edge/*.py ${SOURCE}/rewriter/rules/*.py
     ${SOURCE}/samples/*.py)
file(REMOVE_RECURSE ${OUT})
file(MAKE_DIRECTORY ${OUT})
foreach(input IN LISTS inputs)
    file(SHA1 "${input}" hash)
    file(COPY_FILE "${input}" ${OUT}/${hash})
endforeach()
