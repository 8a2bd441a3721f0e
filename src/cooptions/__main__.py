from cooptions.cli import main

main()
