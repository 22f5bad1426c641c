"""Common short English words, nearly all of them one token in nearly all tokenizers: what random prompts are made of when there is no tokenizer."""

WORDS = tuple(
    """
    able about above across act add after again age ago air all also always among and animal answer any area arm art ask away baby back bad bag ball
    bank base bed been before began begin being below best better between big bird bit black blue board boat body book both bottom box boy bring
    brother brown build but buy call came can car card care carry case cat cause center chance change check child city class clean clear close cold
    color come common cool corn cost could country course cover cross cry cup cut dark day dead deal deep did different do dog done door down draw
    dream drive drop dry each early earth east easy eat edge egg eight end enough even ever every eye face fact fall family far farm fast father feel
    feet few field fight fill film final find fine fire first fish five flat floor fly follow food foot for force form found four free fresh friend
    from front full fun game gave get girl give glass go gold gone good got grand great green ground group grow had half hand happy hard has hat have
    head hear heart heat heavy held help her here high hill him his hit hold home hope horse hot hour house how human hundred ice idea if inside into
    iron island it job join just keep key kind king knew know lake land large last late laugh law lay lead learn leave left leg less let letter level
    lie life light like line list listen little live long look lost lot love low made main make man many map mark may mean meat meet men might mile
    milk mind minute miss money moon more morning most mother mountain mouth move much music must name near neck need never new next night nine no
    north nose not note nothing now number object ocean off offer office often oil old on once one only open or order other our out over own page
    paint pair paper part party pass past path pay people perhaps person phone pick piece place plan plane plant play please point poor power press
    price print problem pull push put question quick quiet race rain ran reach read ready real reason red rest rich ride right ring rise river road
    rock roll room root round rule run safe said sail salt same sand sat save saw say school sea season seat second see seem sell send sense set seven
    shape she ship shop short should show side sign simple since sing sister sit six size skin sky sleep slow small snow so soft soil some son song
    soon sound south space speak speed spring square stand star start state stay step still stone stood stop store story street strong study such
    sugar summer sun sure table tail take talk tall teach team tell ten test than thank that the their them then there these they thing think third
    this those though thought three through time to today together told too took top town travel tree true try turn two type under unit until up use
    very view visit voice wait walk wall want war warm was wash watch water wave way we weather week well went were west what wheel when where which
    while white who whole why wide wild will wind window winter wish with woman wonder wood word work world would write wrong year yellow yes yet you
    young your
    """.split()  # noqa: SIM905 - as a list nobody could read it
)
