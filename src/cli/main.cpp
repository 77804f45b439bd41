// The program `lily`.
int main() { return 0; }
