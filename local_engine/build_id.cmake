# Writes OUT: a header with the SHA-256 over the sources that decide the bits of an answer.
#   cmake -DROOT=... -DLIST=file-with-one-path-a-line -DOUT=... -P build_id.cmake
# The digest is SHA-256 over lines "<sha256 of the file>  <path below ROOT>\n", sorted by path.
file(STRINGS "${LIST}" paths)
list(SORT paths)
set(lines "")
foreach(path IN LISTS paths)
  file(SHA256 "${ROOT}/${path}" digest)
  string(APPEND lines "${digest}  ${path}\n")
endforeach()
string(SHA256 digest "${lines}")
file(WRITE "${OUT}" "#pragma once\n#define VERBATIM_SOURCE_DIGEST \"${digest}\"\n")
