// The one file that compiles Asio's and Beast's own sources (BOOST_*_SEPARATE_COMPILATION).

#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
