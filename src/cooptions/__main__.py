from cooptions.cli.main import main

main()
