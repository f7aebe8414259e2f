"""Why a quantized file answers worse, or runs slower, than the float file that it was made from."""
